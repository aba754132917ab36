// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/cuda_backend.h"

#include <cstdio>

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/kernel_list.h"
#include "backends/cuda/probe.h"

namespace flashattn {
namespace {

class CudaBackend final : public Backend {
 public:
  constexpr CudaBackend() = default;

  int32_t id() const override { return FLASHATTN_BACKEND_CUDA; }
  const char *name() const override { return "cuda"; }

  Status probe(int32_t *count, int32_t *driver_version) const override {
    *count = 0;
    const cuda::CudaDriver *driver = nullptr;
    if (Status status = cuda::open_driver(&driver, driver_version); status != kOk) return status;
    return cuda::count_devices(count);
  }

  Status device_info(int32_t ordinal, flashattn_device_info_t *info) const override {
    cuda::describe_device(ordinal, info);
    return kOk;
  }

  int32_t kernel_count() const override { return cuda::kernel_count(); }

  // Every kernel runs on every device the backend opens.
  void kernel_info(int32_t index, flashattn_kernel_info_t *info) const override {
    std::snprintf(info->name, sizeof info->name, "%s", cuda::kernel_at(index).name);
    const SavedError before;
    int32_t count = 0;
    int32_t version = 0;
    info->available = probe(&count, &version) == kOk ? 1 : 0;
    std::snprintf(info->reason, sizeof info->reason, "%s",
                  info->available != 0 ? "" : flashattn_last_error());
    before.restore();
  }

  Status open(const flashattn_options_t &options, const Host & /*host*/,
              std::unique_ptr<BackendDevice> *device) const override {
    const cuda::CudaDriver *driver = nullptr;
    int32_t version = 0;
    if (Status status = cuda::open_driver(&driver, &version); status != kOk) return status;
    return cuda::CudaDevice::open(*driver, options, device);
  }
};

constexpr CudaBackend kCudaBackend;

}  // namespace

const Backend &cuda_backend() {
  return kCudaBackend;
}

}  // namespace flashattn
