// SPDX-License-Identifier: Apache-2.0
// The CUDA driver API entry points that the backend uses, found in libcuda.so.1 at run time. The types are
// those of cuda.h under 64-bit Linux, restated so that no toolkit header is needed on the host side. Source:
// CUDA Driver API reference; names carry the version suffix of the ABI they were exported with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/status.h"

namespace flashattn::cuda {

using CuResult = int;
using CuDevice = int;
using CuContext = void *;
using CuModule = void *;
using CuFunction = void *;
using CuStream = void *;
using CuPointer = uint64_t;

inline constexpr CuResult kCudaSuccess = 0;
inline constexpr CuResult kCudaOutOfMemory = 2;
inline constexpr CuResult kCudaNoDevice = 100;
inline constexpr CuResult kCudaInvalidDevice = 101;
inline constexpr CuResult kCudaSystemDriverMismatch = 803;

// CUdevice_attribute.
inline constexpr int kMultiprocessorCount = 16;
inline constexpr int kL2CacheSize = 38;
inline constexpr int kCapabilityMajor = 75;
inline constexpr int kCapabilityMinor = 76;
inline constexpr int kMaxSharedMemoryPerBlockOptin = 97;
// CUtensorMapDataType, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill.
inline constexpr int kMapF16 = 6;
inline constexpr int kMapBf16 = 9;
inline constexpr int kMapInterleaveNone = 0;
inline constexpr int kMapSwizzle128 = 3;
inline constexpr int kMapPromote256 = 3;
inline constexpr int kMapFillZero = 0;
// CUfunction_attribute.
inline constexpr int kNumRegs = 4;
inline constexpr int kMaxDynamicSharedSize = 8;

struct CudaDriver {
  CuResult (*cuInit)(unsigned flags);
  CuResult (*cuDriverGetVersion)(int *version);
  CuResult (*cuGetErrorName)(CuResult error, const char **name);
  CuResult (*cuGetErrorString)(CuResult error, const char **text);
  CuResult (*cuDeviceGet)(CuDevice *device, int ordinal);
  CuResult (*cuDeviceGetCount)(int *count);
  CuResult (*cuDeviceGetName)(char *name, int size, CuDevice device);
  CuResult (*cuDeviceGetAttribute)(int *value, int attribute, CuDevice device);
  CuResult (*cuDevicePrimaryCtxRetain)(CuContext *context, CuDevice device);
  CuResult (*cuDevicePrimaryCtxRelease)(CuDevice device);
  CuResult (*cuCtxGetCurrent)(CuContext *context);
  CuResult (*cuCtxPushCurrent)(CuContext context);
  CuResult (*cuCtxPopCurrent)(CuContext *context);
  CuResult (*cuCtxGetDevice)(CuDevice *device);
  CuResult (*cuModuleLoadData)(CuModule *module, const void *image);
  CuResult (*cuModuleUnload)(CuModule module);
  CuResult (*cuModuleGetFunction)(CuFunction *function, CuModule module, const char *name);
  CuResult (*cuFuncLoad)(CuFunction function);  // optional, from 12.4
  CuResult (*cuFuncGetAttribute)(int *value, int attribute, CuFunction function);
  CuResult (*cuFuncSetAttribute)(CuFunction function, int attribute, int value);
  CuResult (*cuLaunchKernel)(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                             CuStream stream, void **parameters, void **extra);
  CuResult (*cuMemAlloc)(CuPointer *memory, size_t size);
  CuResult (*cuMemFree)(CuPointer memory);
  CuResult (*cuMemsetD32Async)(CuPointer memory, unsigned value, size_t count, CuStream stream);
  CuResult (*cuStreamIsCapturing)(CuStream stream, int *status);
  // Optional, from 12.0. map: CUtensorMap, 128 bytes aligned to 64. Host work only.
  CuResult (*cuTensorMapEncodeTiled)(void *map, int data_type, uint32_t rank, void *address,
                                     const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                                     const uint32_t *element_strides, int interleave, int swizzle,
                                     int l2_promotion, int fill);
};

// The driver, opened by the first call of the process and checked against kMinimumDriver. NO_DRIVER or
// DRIVER_TOO_OLD with the reason. Neither initialises CUDA.
Status open_driver(const CudaDriver **driver, int32_t *version);

// As cuDriverGetVersion counts: 1000 * major + 10 * minor. Device code of a toolkit runs on every driver of
// its major version and on newer ones ("CUDA Compatibility", minor version compatibility).
inline constexpr int32_t kMinimumDriver = FLASHATTN_CUDA_TOOLKIT_MAJOR * 1000;

// kOk, or DRIVER_ERROR (OUT_OF_MEMORY where that is what happened) with the function, the driver's name for
// the error, its text and its code.
Status check(const CudaDriver &driver, CuResult result, const char *function);

}  // namespace flashattn::cuda
