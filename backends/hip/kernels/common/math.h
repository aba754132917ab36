// SPDX-License-Identifier: Apache-2.0
// f32 functions without a device library.
#pragma once

#include "backends/hip/kernels/common/device.h"

namespace flashattn::hip {

constexpr float kLog2E = 1.44269504088896341F;
constexpr float kInfinity = __builtin_inff();

__device__ __forceinline__ float max_of(float a, float b) {
  return __builtin_fmaxf(a, b);
}

// 2^x, one instruction: 1 ulp, results below 2^-126 are 0 (CDNA3 ISA, V_EXP_F32).
__device__ __forceinline__ float exp2_fast(float x) {
  return __builtin_amdgcn_exp2f(x);
}

// e^x and ln x as the compiler expands them, to about 1 ulp.
__device__ __forceinline__ float exp_of(float x) {
  return __builtin_expf(x);
}
__device__ __forceinline__ float log_of(float x) {
  return __builtin_logf(x);
}

// tanh x to about 3 ulp: the Taylor series near 0, where 1 - 2 / (e^2x + 1) cancels.
__device__ __forceinline__ float tanh_of(float x) {
  const float y = __builtin_fabsf(x);
  const float square = x * x;
  float series = -1382.0F / 155925.0F;
  series = __builtin_fmaf(series, square, 62.0F / 2835.0F);
  series = __builtin_fmaf(series, square, -17.0F / 315.0F);
  series = __builtin_fmaf(series, square, 2.0F / 15.0F);
  series = __builtin_fmaf(series, square, -1.0F / 3.0F);
  const float small = __builtin_fmaf(y * square, series, y);
  const float large = 1.0F - 2.0F / (exp_of(2.0F * y) + 1.0F);
  return __builtin_copysignf(y < 0.35F ? small : large, x);
}

}  // namespace flashattn::hip
