// SPDX-License-Identifier: Apache-2.0
// CUDA C++ as plain C++17 on the machine of tests/backends/cuda/double. Included before any device code.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/backends/cuda/double/machine.h"

#define __device__
#define __host__
#define __global__
#define __constant__
#define __forceinline__ inline
#define __noinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define threadIdx (::cuda_double::thread_index())
#define blockIdx (::cuda_double::block_index())
#define gridDim (::cuda_double::grid_size())

struct uint4 {
  uint32_t x, y, z, w;
};
struct float4 {
  float x, y, z, w;
};
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  return {x, y, z, w};
}

struct __nv_bfloat16 {
  uint16_t bits;
};
struct __half {
  uint16_t bits;
};
inline float __half2float(__half x) {
  return cuda_double::half_to_float(x.bits);
}
inline float __bfloat162float(__nv_bfloat16 x) {
  return cuda_double::bfloat_to_float(x.bits);
}
inline __half __float2half_rn(float x) {
  return {cuda_double::float_to_half(x)};
}
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  return {cuda_double::float_to_bfloat(x)};
}

using std::max;
using std::min;

inline float __int_as_float(int bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline float __frcp_rn(float x) {
  return 1.0F / x;
}
inline void __nanosleep(unsigned /*ns*/) {}

// Warp-wide operations: CUDA C++ Programming Guide, "Warp Shuffle Functions", "Warp Vote Functions".
enum WarpOperation { kShuffle = 1, kShuffleXor, kAny, kSync, kStoreMatrix };

template <typename T>
const uint64_t *exchange_value(int op, T value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return cuda_double::exchange(op, bits);
}
template <typename T>
T value_of(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <typename T>
T __shfl_sync(unsigned /*mask*/, T value, int lane) {
  return value_of<T>(exchange_value(kShuffle, value)[lane]);
}
template <typename T>
T __shfl_xor_sync(unsigned /*mask*/, T value, int with) {
  return value_of<T>(exchange_value(kShuffleXor, value)[(threadIdx.x % 32) ^ static_cast<unsigned>(with)]);
}
inline bool __any_sync(unsigned /*mask*/, bool value) {
  const uint64_t *all = exchange_value(kAny, static_cast<uint64_t>(value));
  return std::any_of(all, all + 32, [](uint64_t x) { return x != 0; });
}
inline void __syncwarp() {
  exchange_value(kSync, uint64_t{0});
}
inline void __syncthreads() {
  cuda_double::barrier(0, 0);
}
inline int __syncthreads_or(int value) {
  // A vote of each warp, then of the block, in shared state that two barriers protect.
  static int votes = 0;
  cuda_double::barrier(0, 0);
  votes = 0;
  cuda_double::barrier(0, 0);
  votes |= value != 0 ? 1 : 0;
  cuda_double::barrier(0, 0);
  return votes;
}

// One thread runs at a time.
template <typename T>
T atomicAdd(T *at, T value) {
  const T before = *at;
  *at = before + value;
  return before;
}
template <typename T>
T atomicOr(T *at, T value) {
  const T before = *at;
  *at = before | value;
  return before;
}
