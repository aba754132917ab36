// SPDX-License-Identifier: Apache-2.0
#include "backends/hip/hip_device.h"

#include <cstdio>

#include "backends/hip/images.h"

namespace flashattn::hip {
namespace {

constexpr int32_t kMergeThreads = 256;  // as generic/combine.hip
constexpr int32_t kMergeRows = kMergeThreads / 64;
constexpr size_t kRuntimeAlignment = 256;  // of hipMalloc's memory

}  // namespace

Status HipDevice::open(const HipDriver &driver, const flashattn_options_t &options,
                       std::unique_ptr<BackendDevice> *device) {
  if ((options.flags & FLASHATTN_OPTION_VALIDATE) != 0) {
    return fail(
        FLASHATTN_STATUS_UNSUPPORTED,
        "flags has FLASHATTN_OPTION_VALIDATE; the HIP backend cannot check what lies in device memory yet");
  }
  if (options.context != nullptr) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "context is not NULL; the HIP backend has no contexts");
  }
  int32_t count = 0;
  if (Status status = start(driver, &count); status != kOk) return status;
  if (options.device < 0 || options.device >= count) {
    return fail(FLASHATTN_STATUS_INVALID_DEVICE, "device is %d; the HIP runtime has %d", options.device,
                count);
  }
  std::unique_ptr<HipDevice> opened(new HipDevice(driver, options.device));
  if (Status status = opened->read_traits(); status != kOk) return status;
  const ScopedDevice scope(driver, options.device);
  if (Status status = scope.status(); status != kOk) return status;
  opened->modules_.emplace(driver);
  if (Status status = opened->modules_->function(embedded_code_combine, "merge_parts", &opened->merge_);
      status != kOk) {
    return status;
  }
  *device = std::move(opened);
  return kOk;
}

HipDevice::~HipDevice() {
  if (!modules_) return;
  const ScopedDevice scope(driver_, ordinal_);
  modules_.reset();
}

Status HipDevice::read_traits() {
  int major = 0;
  int minor = 0;
  int l2 = 0;
  const struct {
    int attribute;
    int *value;
  } wanted[] = {{kCapabilityMajor, &major},
                {kCapabilityMinor, &minor},
                {kL2CacheSize, &l2},
                {kMultiprocessorCount, &compute_units_}};
  for (const auto &item : wanted) {
    if (Status status = check(driver_, driver_.hipDeviceGetAttribute(item.value, item.attribute, ordinal_),
                              "hipDeviceGetAttribute");
        status != kOk) {
      return status;
    }
  }
  l2_bytes_ = l2;
  if (Status status =
          check(driver_, driver_.hipDeviceGetName(name_, sizeof name_, ordinal_), "hipDeviceGetName");
      status != kOk) {
    return status;
  }
  if (major == 9 && minor == 4) return kOk;
  return fail(FLASHATTN_STATUS_NO_DEVICE,
              "device is %d, %s of capability %d.%d; the kernels are for 9.4 (MI300)", ordinal_, name_, major,
              minor);
}

void HipDevice::info(flashattn_handle_info_t *info) const {
  info->backend = FLASHATTN_BACKEND_HIP;
  info->device = ordinal_;
  info->num_threads = 0;
  std::snprintf(info->name, sizeof info->name, "%s", name_);
}

Status HipDevice::plan(const flashattn_problem_t &problem, std::unique_ptr<BackendPlan> *plan) {
  const ScopedDevice scope(driver_, ordinal_);
  if (Status status = scope.status(); status != kOk) return status;
  return HipPlan::make({driver_, ordinal_, compute_units_, l2_bytes_, *modules_}, problem, plan);
}

Status HipDevice::combine(const flashattn_combine_args_t &args, void *stream) {
  const gpu::MergeArgs merge = gpu::describe_merge(args);
  if (merge.rows == 0) return kOk;
  const ScopedDevice scope(driver_, ordinal_);
  if (Status status = scope.status(); status != kOk) return status;
  return launch(driver_, merge_, (merge.rows + kMergeRows - 1) / kMergeRows, UINT32_MAX / kMergeThreads,
                kMergeThreads, stream, merge);
}

Status HipDevice::allocate(size_t size, size_t alignment, void **memory) {
  if (alignment > kRuntimeAlignment) {
    return fail(FLASHATTN_STATUS_INTERNAL, "workspace alignment is %zu; device memory has %zu", alignment,
                kRuntimeAlignment);
  }
  const ScopedDevice scope(driver_, ordinal_);
  if (Status status = scope.status(); status != kOk) return status;
  return check(driver_, driver_.hipMalloc(memory, size), "hipMalloc");
}

void HipDevice::release(void *memory, size_t /*size*/, size_t /*alignment*/) {
  const ScopedDevice scope(driver_, ordinal_);
  driver_.hipFree(memory);
}

Status HipDevice::is_capturing(void *stream, bool *capturing) {
  *capturing = false;
  // The default stream cannot be captured.
  if (stream == nullptr) return kOk;
  const ScopedDevice scope(driver_, ordinal_);
  if (Status status = scope.status(); status != kOk) return status;
  int state = 0;
  const Status status = check(driver_, driver_.hipStreamIsCapturing(stream, &state), "hipStreamIsCapturing");
  *capturing = state != 0;
  return status;
}

}  // namespace flashattn::hip
