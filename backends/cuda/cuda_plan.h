// SPDX-License-Identifier: Apache-2.0
// A plan: the kernel that was chosen, the generic one for calls whose bases or strides it cannot take, and
// the workspace that both make do with.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/kernel_list.h"
#include "backends/cuda/module.h"
#include "backends/gpu/forward_args.h"

namespace flashattn::cuda {

// What a plan needs of its device, which outlives it.
struct DeviceRefs {
  const CudaDriver &driver;
  CuContext context;
  int32_t ordinal;
  DeviceTraits traits;
  Modules &modules;
};

// A kernel made ready for one problem.
class ReadyKernel {
 public:
  // Loads the code. The context is current.
  static Status make(const DeviceRefs &device, const flashattn_problem_t &problem, const KernelEntry &entry,
                     std::optional<ReadyKernel> *ready);

  const KernelEntry &entry() const { return *entry_; }
  const gpu::SplitRule &rule() const { return rule_; }
  size_t workspace_size() const { return workspace_size_; }

  // Enqueues a call, or says which field keeps the kernel from taking it: *unfit, nullptr when it was taken.
  // The context is current.
  Status run(const DeviceRefs &device, const flashattn_problem_t &problem, const flashattn_call_t &call,
             void *workspace, CuStream stream, const char **unfit) const;

 private:
  Status run_hopper(const DeviceRefs &device, const flashattn_problem_t &problem,
                    const flashattn_call_t &call, void *workspace, CuStream stream, const char **unfit) const;

  const KernelEntry *entry_ = nullptr;
  CuFunction forward_ = nullptr;
  CuFunction combine_ = nullptr;  // where calls may be split
  gpu::SplitRule rule_{};
  size_t workspace_size_ = 0;
};

class CudaPlan final : public BackendPlan {
 public:
  // The context is current.
  static Status make(const DeviceRefs &device, const flashattn_problem_t &problem,
                     std::unique_ptr<BackendPlan> *plan);

  void info(flashattn_plan_info_t *info) const override;
  const std::vector<std::string> &reasons() const override { return reasons_; }
  Status workspace_init(void *workspace, void *stream) const override;
  Status run(const flashattn_call_t &call, void *workspace, void *stream) const override;

 private:
  CudaPlan(const DeviceRefs &device, const flashattn_problem_t &problem)
      : device_(device), problem_(problem) {}
  Status choose();
  // Bytes at the start of the workspace that belong to the fast kernel alone and outlive a call.
  size_t kept_bytes() const;

  DeviceRefs device_;
  flashattn_problem_t problem_;
  std::optional<ReadyKernel> fast_;     // none: the generic kernel is the choice
  std::optional<ReadyKernel> generic_;  // none: only the fast one may run
  std::vector<std::string> reasons_;
};

}  // namespace flashattn::cuda
