// SPDX-License-Identifier: Apache-2.0
// The device side of HIP with clang alone: no ROCm headers, no device library. With FLASHATTN_HIP_HEADERS the same
// sources take hipcc's own header instead.
#pragma once

#if defined(FLASHATTN_HIP_HEADERS)
#include <hip/hip_runtime.h>
#else
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#endif

#include <cstdint>

namespace flashattn::hip {

constexpr int kWaveLanes = 64;

__device__ __forceinline__ int thread_index() {
  return static_cast<int>(__builtin_amdgcn_workitem_id_x());
}
__device__ __forceinline__ int64_t block_index() {
  return __builtin_amdgcn_workgroup_id_x();
}

// All threads of the block have done what stands before, in LDS too.
__device__ __forceinline__ void block_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

__device__ __forceinline__ bool any_in_wave(bool condition) {
  return __builtin_amdgcn_ballot_w64(condition) != 0;
}

// The value of another lane of the wave.
__device__ __forceinline__ float from_lane(float value, int lane) {
  return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(lane * 4, __builtin_bit_cast(int, value)));
}

}  // namespace flashattn::hip
