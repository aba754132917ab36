// SPDX-License-Identifier: Apache-2.0
// Elements of any type, to and from f32.
#pragma once

#include "backends/hip/kernels/common/math.h"
#include "flashattn.h"

namespace flashattn::hip {

// Round to nearest even; NaN stays NaN.
__device__ __forceinline__ uint16_t bf16_of(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  return static_cast<uint16_t>(value != value ? (bits >> 16 | 0x40U) : rounded);
}

__device__ __forceinline__ uint16_t f16_of(float value) {
  return __builtin_bit_cast(uint16_t, static_cast<_Float16>(value));
}

__device__ __forceinline__ float load_element(const void *data, int64_t index, int32_t dtype) {
  if (dtype == FLASHATTN_DTYPE_F32) return static_cast<const float *>(data)[index];
  const uint16_t bits = static_cast<const uint16_t *>(data)[index];
  if (dtype == FLASHATTN_DTYPE_F16) return static_cast<float>(__builtin_bit_cast(_Float16, bits));
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
}

__device__ __forceinline__ void store_element(void *data, int64_t index, int32_t dtype, float value) {
  if (dtype == FLASHATTN_DTYPE_F32) {
    static_cast<float *>(data)[index] = value;
  } else {
    static_cast<uint16_t *>(data)[index] = dtype == FLASHATTN_DTYPE_F16 ? f16_of(value) : bf16_of(value);
  }
}

}  // namespace flashattn::hip
