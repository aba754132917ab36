// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver.h"

#include <cstdio>
#include <iterator>

#include "backends/driver_table.h"

namespace flashattn::cuda {
namespace {

#define FLASHATTN_QUOTE(text) #text
#define FLASHATTN_VALUE(macro) FLASHATTN_QUOTE(macro)
constexpr char kMinimumText[] = "a driver for CUDA " FLASHATTN_VALUE(FLASHATTN_CUDA_TOOLKIT_MAJOR) ".0";

constexpr DriverMark kRequired = DriverMark::kRequired;
constexpr DriverEntry kEntries[] = {
    {"cuInit", offsetof(CudaDriver, cuInit), kRequired},
    {"cuDriverGetVersion", offsetof(CudaDriver, cuDriverGetVersion), kRequired},
    {"cuGetErrorName", offsetof(CudaDriver, cuGetErrorName), kRequired},
    {"cuGetErrorString", offsetof(CudaDriver, cuGetErrorString), kRequired},
    {"cuDeviceGet", offsetof(CudaDriver, cuDeviceGet), kRequired},
    {"cuDeviceGetCount", offsetof(CudaDriver, cuDeviceGetCount), kRequired},
    {"cuDeviceGetName", offsetof(CudaDriver, cuDeviceGetName), kRequired},
    {"cuDeviceGetAttribute", offsetof(CudaDriver, cuDeviceGetAttribute), kRequired},
    {"cuDevicePrimaryCtxRetain", offsetof(CudaDriver, cuDevicePrimaryCtxRetain), kRequired},
    {"cuDevicePrimaryCtxRelease_v2", offsetof(CudaDriver, cuDevicePrimaryCtxRelease), kRequired},
    {"cuCtxGetCurrent", offsetof(CudaDriver, cuCtxGetCurrent), kRequired},
    {"cuCtxPushCurrent_v2", offsetof(CudaDriver, cuCtxPushCurrent), kRequired},
    {"cuCtxPopCurrent_v2", offsetof(CudaDriver, cuCtxPopCurrent), kRequired},
    {"cuCtxGetDevice", offsetof(CudaDriver, cuCtxGetDevice), kRequired},
    {"cuModuleLoadData", offsetof(CudaDriver, cuModuleLoadData), kRequired},
    {"cuModuleUnload", offsetof(CudaDriver, cuModuleUnload), kRequired},
    {"cuModuleGetFunction", offsetof(CudaDriver, cuModuleGetFunction), kRequired},
    {"cuFuncLoad", offsetof(CudaDriver, cuFuncLoad), DriverMark::kOptional},
    {"cuFuncGetAttribute", offsetof(CudaDriver, cuFuncGetAttribute), kRequired},
    {"cuFuncSetAttribute", offsetof(CudaDriver, cuFuncSetAttribute), kRequired},
    {"cuLaunchKernel", offsetof(CudaDriver, cuLaunchKernel), kRequired},
    {"cuMemAlloc_v2", offsetof(CudaDriver, cuMemAlloc), kRequired},
    {"cuMemFree_v2", offsetof(CudaDriver, cuMemFree), kRequired},
    {"cuMemsetD32Async", offsetof(CudaDriver, cuMemsetD32Async), kRequired},
    {"cuStreamIsCapturing", offsetof(CudaDriver, cuStreamIsCapturing), kRequired},
    {"cuTensorMapEncodeTiled", offsetof(CudaDriver, cuTensorMapEncodeTiled), DriverMark::kOptional},
};
constexpr const char *kLibraries[] = {"libcuda.so.1"};

DriverTable<CudaDriver> g_driver({"the CUDA driver", kMinimumText, kLibraries, std::size(kLibraries),
                                  kEntries, std::size(kEntries)});

}  // namespace

Status open_driver(const CudaDriver **driver, int32_t *version) {
  *version = 0;
  if (Status status = g_driver.get(driver); status != kOk) return status;
  if (Status status = check(**driver, (*driver)->cuDriverGetVersion(version), "cuDriverGetVersion");
      status != kOk) {
    return status;
  }
  if (*version >= kMinimumDriver) return kOk;
  return fail(FLASHATTN_STATUS_DRIVER_TOO_OLD, "the CUDA driver is for CUDA %d.%d; %s or newer is needed",
              *version / 1000, *version % 1000 / 10, kMinimumText);
}

Status check(const CudaDriver &driver, CuResult result, const char *function) {
  if (result == kCudaSuccess) return kOk;
  const char *name = nullptr;
  const char *text = nullptr;
  if (driver.cuGetErrorName(result, &name) != kCudaSuccess || name == nullptr) name = "unknown error";
  if (driver.cuGetErrorString(result, &text) != kCudaSuccess || text == nullptr) text = "no description";
  const Status status =
      result == kCudaOutOfMemory ? FLASHATTN_STATUS_OUT_OF_MEMORY : FLASHATTN_STATUS_DRIVER_ERROR;
  return fail_driver(status, result, "%s failed: %s (%d), %s", function, name, result, text);
}

}  // namespace flashattn::cuda
