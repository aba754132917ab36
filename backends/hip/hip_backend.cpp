// SPDX-License-Identifier: Apache-2.0
#include "backends/hip/hip_backend.h"

#include <cstdio>

#include "backends/hip/driver.h"
#include "backends/hip/hip_device.h"
#include "backends/hip/kernel_list.h"
#include "backends/hip/probe.h"

namespace flashattn {
namespace {

class HipBackend final : public Backend {
 public:
  constexpr HipBackend() = default;

  int32_t id() const override { return FLASHATTN_BACKEND_HIP; }
  const char *name() const override { return "hip"; }

  Status probe(int32_t *count, int32_t *driver_version) const override {
    *count = 0;
    *driver_version = 0;
    const hip::HipDriver *driver = nullptr;
    if (Status status = hip::open_driver(&driver); status != kOk) return status;
    return hip::count_devices(*driver, count);
  }

  Status device_info(int32_t ordinal, flashattn_device_info_t *info) const override {
    const hip::HipDriver *driver = nullptr;
    if (Status status = hip::open_driver(&driver); status != kOk) return status;
    hip::describe_device(*driver, ordinal, info);
    return kOk;
  }

  int32_t kernel_count() const override { return hip::kernel_count(); }

  // Every kernel runs on every device the backend opens.
  void kernel_info(int32_t index, flashattn_kernel_info_t *info) const override {
    std::snprintf(info->name, sizeof info->name, "%s", hip::kernel_at(index).name);
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
    const hip::HipDriver *driver = nullptr;
    if (Status status = hip::open_driver(&driver); status != kOk) return status;
    return hip::HipDevice::open(*driver, options, device);
  }
};

constexpr HipBackend kHipBackend;

}  // namespace

const Backend &hip_backend() {
  return kHipBackend;
}

}  // namespace flashattn
