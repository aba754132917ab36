// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/cuda_device.h"

#include <cstdio>

#include "backends/cuda/context.h"
#include "backends/cuda/images.h"
#include "backends/cuda/launch.h"

namespace flashattn::cuda {
namespace {

constexpr int32_t kMergeThreads = 128;
constexpr int32_t kMergeRows = kMergeThreads / 32;
constexpr int32_t kOldestCapability = 80;
constexpr size_t kDriverAlignment = 256;  // of cuMemAlloc's memory

}  // namespace

Status CudaDevice::open(const CudaDriver &driver, const flashattn_options_t &options,
                        std::unique_ptr<BackendDevice> *device) {
  if ((options.flags & FLASHATTN_OPTION_VALIDATE) != 0) {
    return fail(
        FLASHATTN_STATUS_UNSUPPORTED,
        "flags has FLASHATTN_OPTION_VALIDATE; the CUDA backend cannot check what lies in device memory yet");
  }
  const CuResult started = driver.cuInit(0);
  if (started == kCudaNoDevice) {
    return fail_driver(FLASHATTN_STATUS_NO_DEVICE, started, "cuInit finds no CUDA device");
  }
  if (Status status = check(driver, started, "cuInit"); status != kOk) return status;
  std::unique_ptr<CudaDevice> opened(new CudaDevice(driver));
  if (Status status = opened->take_context(options); status != kOk) return status;
  if (Status status = opened->read_traits(); status != kOk) return status;
  const ScopedContext scope(driver, opened->context_);
  if (Status status = scope.status(); status != kOk) return status;
  opened->modules_.emplace(driver);
  if (Status status = opened->modules_->function(embedded_image_combine, "merge_parts", 0, &opened->merge_);
      status != kOk) {
    return status;
  }
  *device = std::move(opened);
  return kOk;
}

CudaDevice::~CudaDevice() {
  if (modules_) {
    const ScopedContext scope(driver_, context_);
    const SavedError before;
    if (scope.status() == kOk) modules_.reset();
    before.restore();
  }
  if (retained_) driver_.cuDevicePrimaryCtxRelease(device_);
}

Status CudaDevice::take_context(const flashattn_options_t &options) {
  ordinal_ = options.device;
  const CuResult got = driver_.cuDeviceGet(&device_, ordinal_);
  if (got == kCudaInvalidDevice) {
    int count = 0;
    driver_.cuDeviceGetCount(&count);
    return fail_driver(FLASHATTN_STATUS_INVALID_DEVICE, got, "device is %d; the CUDA driver has %d", ordinal_,
                       count);
  }
  if (Status status = check(driver_, got, "cuDeviceGet"); status != kOk) return status;
  if (options.context == nullptr) {
    const Status status =
        check(driver_, driver_.cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
    retained_ = status == kOk;
    return status;
  }
  context_ = options.context;
  const ScopedContext scope(driver_, context_);
  if (Status status = scope.status(); status != kOk) return status;
  CuDevice owner = 0;
  if (Status status = check(driver_, driver_.cuCtxGetDevice(&owner), "cuCtxGetDevice"); status != kOk)
    return status;
  if (owner == device_) return kOk;
  return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "device is %d; context belongs to device %d", ordinal_,
              owner);
}

Status CudaDevice::read_traits() {
  int major = 0;
  int minor = 0;
  int l2 = 0;
  const struct {
    int attribute;
    int *value;
  } wanted[] = {{kCapabilityMajor, &major},
                {kCapabilityMinor, &minor},
                {kL2CacheSize, &l2},
                {kMultiprocessorCount, &traits_.multiprocessors},
                {kMaxSharedMemoryPerBlockOptin, &traits_.shared_limit}};
  for (const auto &item : wanted) {
    if (Status status = check(driver_, driver_.cuDeviceGetAttribute(item.value, item.attribute, device_),
                              "cuDeviceGetAttribute");
        status != kOk) {
      return status;
    }
  }
  traits_.l2_bytes = l2;
  traits_.capability = major * 10 + minor;
  traits_.tensor_maps = driver_.cuTensorMapEncodeTiled != nullptr;
  if (Status status =
          check(driver_, driver_.cuDeviceGetName(name_, sizeof name_, device_), "cuDeviceGetName");
      status != kOk) {
    return status;
  }
  if (traits_.capability >= kOldestCapability) return kOk;
  return fail(FLASHATTN_STATUS_NO_DEVICE,
              "device is %d, a %s of compute capability %d.%d; 8.0 or newer is needed", ordinal_, name_,
              major, minor);
}

void CudaDevice::info(flashattn_handle_info_t *info) const {
  info->backend = FLASHATTN_BACKEND_CUDA;
  info->device = ordinal_;
  info->num_threads = 0;
  std::snprintf(info->name, sizeof info->name, "%s", name_);
}

Status CudaDevice::plan(const flashattn_problem_t &problem, std::unique_ptr<BackendPlan> *plan) {
  const ScopedContext scope(driver_, context_);
  if (Status status = scope.status(); status != kOk) return status;
  return CudaPlan::make({driver_, context_, ordinal_, traits_, *modules_}, problem, plan);
}

Status CudaDevice::combine(const flashattn_combine_args_t &args, void *stream) {
  const gpu::MergeArgs merge = gpu::describe_merge(args);
  if (merge.rows == 0) return kOk;
  const ScopedContext scope(driver_, context_);
  if (Status status = scope.status(); status != kOk) return status;
  return launch(driver_, merge_, (merge.rows + kMergeRows - 1) / kMergeRows, kMergeThreads, 0, stream, merge);
}

Status CudaDevice::allocate(size_t size, size_t alignment, void **memory) {
  if (alignment > kDriverAlignment) {
    return fail(FLASHATTN_STATUS_INTERNAL, "workspace alignment is %zu; device memory has %zu", alignment,
                kDriverAlignment);
  }
  const ScopedContext scope(driver_, context_);
  if (Status status = scope.status(); status != kOk) return status;
  CuPointer pointer = 0;
  const Status status = check(driver_, driver_.cuMemAlloc(&pointer, size), "cuMemAlloc");
  *memory =
      reinterpret_cast<void *>(pointer);  // NOLINT(performance-no-int-to-ptr): how the driver names memory
  return status;
}

void CudaDevice::release(void *memory, size_t /*size*/, size_t /*alignment*/) {
  const ScopedContext scope(driver_, context_);
  driver_.cuMemFree(reinterpret_cast<CuPointer>(memory));
}

Status CudaDevice::is_capturing(void *stream, bool *capturing) {
  *capturing = false;
  // The legacy default stream cannot be captured, and asking about it disturbs captures elsewhere.
  if (stream == nullptr) return kOk;
  const ScopedContext scope(driver_, context_);
  if (Status status = scope.status(); status != kOk) return status;
  int state = 0;
  const Status status = check(driver_, driver_.cuStreamIsCapturing(stream, &state), "cuStreamIsCapturing");
  *capturing = state != 0;
  return status;
}

}  // namespace flashattn::cuda
