// SPDX-License-Identifier: Apache-2.0
// A plan: the kernel that was chosen, the generic one for calls whose bases or strides it cannot take, and the
// workspace that both make do with.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/gpu/forward_args.h"
#include "backends/hip/driver.h"
#include "backends/hip/kernel_list.h"
#include "backends/hip/module.h"

namespace flashattn::hip {

// What a plan needs of its device, which outlives it.
struct DeviceRefs {
  const HipDriver &driver;
  int32_t ordinal;
  int32_t compute_units;
  int64_t l2_bytes;
  Modules &modules;
};

// A kernel made ready for one problem.
class ReadyKernel {
 public:
  // Loads the code. The device is current.
  static Status make(const DeviceRefs &device, const flashattn_problem_t &problem, const KernelEntry &entry,
                     std::optional<ReadyKernel> *ready);

  const KernelEntry &entry() const { return *entry_; }
  const gpu::SplitRule &rule() const { return rule_; }
  size_t workspace_size() const { return workspace_size_; }

  // Enqueues a call. The device is current.
  Status run(const DeviceRefs &device, const flashattn_problem_t &problem, const flashattn_call_t &call,
             void *workspace, HipStream stream) const;

 private:
  const KernelEntry *entry_ = nullptr;
  HipFunction forward_ = nullptr;
  HipFunction combine_ = nullptr;  // where calls may be split
  gpu::SplitRule rule_{};
  size_t workspace_size_ = 0;
};

class HipPlan final : public BackendPlan {
 public:
  // The device is current.
  static Status make(const DeviceRefs &device, const flashattn_problem_t &problem,
                     std::unique_ptr<BackendPlan> *plan);

  void info(flashattn_plan_info_t *info) const override;
  const std::vector<std::string> &reasons() const override { return reasons_; }
  Status workspace_init(void * /*workspace*/, void * /*stream*/) const override { return kOk; }
  Status run(const flashattn_call_t &call, void *workspace, void *stream) const override;

 private:
  HipPlan(const DeviceRefs &device, const flashattn_problem_t &problem)
      : device_(device), problem_(problem) {}
  Status choose();

  DeviceRefs device_;
  flashattn_problem_t problem_;
  std::optional<ReadyKernel> fast_;     // none: the generic kernel is the choice
  std::optional<ReadyKernel> generic_;  // none: only the fast one may run
  std::vector<std::string> reasons_;
};

}  // namespace flashattn::hip
