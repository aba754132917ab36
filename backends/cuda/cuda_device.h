// SPDX-License-Identifier: Apache-2.0
// One open CUDA device: its context, its loaded code, its plans' maker.
#pragma once

#include <memory>
#include <optional>

#include "backends/backend.h"
#include "backends/cuda/cuda_plan.h"

namespace flashattn::cuda {

class CudaDevice final : public BackendDevice {
 public:
  // Initialises CUDA and takes the caller's context, or retains the device's primary one.
  static Status open(const CudaDriver &driver, const flashattn_options_t &options,
                     std::unique_ptr<BackendDevice> *device);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice &) = delete;
  CudaDevice &operator=(const CudaDevice &) = delete;

  void info(flashattn_handle_info_t *info) const override;
  Status plan(const flashattn_problem_t &problem, std::unique_ptr<BackendPlan> *plan) override;
  Status combine(const flashattn_combine_args_t &args, void *stream) override;
  Status allocate(size_t size, size_t alignment, void **memory) override;
  void release(void *memory, size_t size, size_t alignment) override;
  Status is_capturing(void *stream, bool *capturing) override;
  bool asynchronous() const override { return true; }

 private:
  explicit CudaDevice(const CudaDriver &driver) : driver_(driver) {}
  Status take_context(const flashattn_options_t &options);
  Status read_traits();

  const CudaDriver &driver_;
  CuDevice device_ = 0;
  int32_t ordinal_ = 0;
  CuContext context_ = nullptr;
  bool retained_ = false;
  DeviceTraits traits_{};
  char name_[96] = "";
  std::optional<Modules> modules_;
  CuFunction merge_ = nullptr;
};

}  // namespace flashattn::cuda
