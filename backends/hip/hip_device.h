// SPDX-License-Identifier: Apache-2.0
// One open HIP device: its loaded code, its plans' maker.
#pragma once

#include <memory>
#include <optional>

#include "backends/backend.h"
#include "backends/hip/hip_plan.h"

namespace flashattn::hip {

class HipDevice final : public BackendDevice {
 public:
  static Status open(const HipDriver &driver, const flashattn_options_t &options,
                     std::unique_ptr<BackendDevice> *device);
  ~HipDevice() override;
  HipDevice(const HipDevice &) = delete;
  HipDevice &operator=(const HipDevice &) = delete;

  void info(flashattn_handle_info_t *info) const override;
  Status plan(const flashattn_problem_t &problem, std::unique_ptr<BackendPlan> *plan) override;
  Status combine(const flashattn_combine_args_t &args, void *stream) override;
  Status allocate(size_t size, size_t alignment, void **memory) override;
  void release(void *memory, size_t size, size_t alignment) override;
  Status is_capturing(void *stream, bool *capturing) override;
  bool asynchronous() const override { return true; }

 private:
  HipDevice(const HipDriver &driver, int32_t ordinal) : driver_(driver), ordinal_(ordinal) {}
  // Name and size of the device; NO_DEVICE when the kernels are not for its architecture.
  Status read_traits();

  const HipDriver &driver_;
  int32_t ordinal_;
  int32_t compute_units_ = 0;
  int64_t l2_bytes_ = 0;
  char name_[96] = "";
  std::optional<Modules> modules_;
  HipFunction merge_ = nullptr;
};

}  // namespace flashattn::hip
