// SPDX-License-Identifier: Apache-2.0
// The HIP runtime's entry points that the backend uses, found in libamdhip64 at run time. The types are those of
// hip_runtime_api.h under 64-bit Linux, restated so that no ROCm header is needed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/status.h"

namespace flashattn::hip {

using HipError = int;
using HipModule = void *;
using HipFunction = void *;
using HipStream = void *;

inline constexpr HipError kHipSuccess = 0;
inline constexpr HipError kHipOutOfMemory = 2;
inline constexpr HipError kHipNoDevice = 100;
inline constexpr HipError kHipInvalidDevice =
    101;  // also what hipInit of ROCm 5 says where there is no device

// hipDeviceAttribute_t, the same numbers from ROCm 5.2 to 7.
inline constexpr int kCapabilityMajor = 23;
inline constexpr int kL2CacheSize = 30;
inline constexpr int kCapabilityMinor = 61;
inline constexpr int kMultiprocessorCount = 63;

// hipGetDeviceProperties is left alone: its struct changed between ROCm 5 and 6.
struct HipDriver {
  HipError (*hipInit)(unsigned flags);
  HipError (*hipRuntimeGetVersion)(int *version);
  const char *(*hipGetErrorName)(HipError error);
  const char *(*hipGetErrorString)(HipError error);
  HipError (*hipGetDeviceCount)(int *count);
  HipError (*hipGetDevice)(int *device);
  HipError (*hipSetDevice)(int device);
  HipError (*hipDeviceGetName)(char *name, int size, int device);
  HipError (*hipDeviceGetAttribute)(int *value, int attribute, int device);
  HipError (*hipModuleLoadData)(HipModule *module, const void *image);
  HipError (*hipModuleUnload)(HipModule module);
  HipError (*hipModuleGetFunction)(HipFunction *function, HipModule module, const char *name);
  // Grid in blocks.
  HipError (*hipModuleLaunchKernel)(HipFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                    unsigned block_x, unsigned block_y, unsigned block_z,
                                    unsigned shared_bytes, HipStream stream, void **parameters, void **extra);
  HipError (*hipMalloc)(void **memory, size_t size);
  HipError (*hipFree)(void *memory);
  HipError (*hipStreamIsCapturing)(HipStream stream, int *status);
};

// The runtime, opened by the first call of the process. NO_DRIVER or DRIVER_TOO_OLD with the reason.
Status open_driver(const HipDriver **driver);

// kOk, or DRIVER_ERROR (OUT_OF_MEMORY where that is what happened) with the function, the runtime's name for the error,
// its text and its code.
Status check(const HipDriver &driver, HipError result, const char *function);

// Initialises HIP. NO_DEVICE where the runtime finds none.
Status start(const HipDriver &driver, int32_t *devices);

// A device is the calling thread's current one for the length of a scope; the one before is so again at the end.
class ScopedDevice {
 public:
  ScopedDevice(const HipDriver &driver, int32_t device) : driver_(driver) {
    result_ = driver.hipGetDevice(&before_);
    if (result_ != kHipSuccess || before_ == device) return;
    result_ = driver.hipSetDevice(device);
    changed_ = result_ == kHipSuccess;
  }
  ~ScopedDevice() {
    if (changed_) driver_.hipSetDevice(before_);
  }
  ScopedDevice(const ScopedDevice &) = delete;
  ScopedDevice &operator=(const ScopedDevice &) = delete;

  Status status() const { return check(driver_, result_, "hipSetDevice"); }

 private:
  const HipDriver &driver_;
  HipError result_ = kHipSuccess;
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace flashattn::hip
