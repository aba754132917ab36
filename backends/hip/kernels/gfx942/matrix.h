// SPDX-License-Identifier: Apache-2.0
// The matrix unit: 32x32x8 products of f16 or bf16 into f32 (CDNA3 ISA, V_MFMA_F32_32X32X8). Of a result C, lane l
// register r holds column l % 32, row 8 * (r / 4) + 4 * (l / 32) + r % 4.
#pragma once

#include "backends/hip/kernels/common/element.h"

namespace flashattn::hip {

using Accumulator = float __attribute__((ext_vector_type(16)));
using Dwords2 = uint32_t __attribute__((ext_vector_type(2)));
using Dwords4 = uint32_t __attribute__((ext_vector_type(4)));

struct F16 {
  using Operand = _Float16 __attribute__((ext_vector_type(4)));
  static __device__ __forceinline__ Accumulator multiply_add(Dwords2 a, Dwords2 b, Accumulator c) {
    return __builtin_amdgcn_mfma_f32_32x32x8f16(__builtin_bit_cast(Operand, a),
                                                __builtin_bit_cast(Operand, b), c, 0, 0, 0);
  }
  // Round to nearest even.
  static __device__ __forceinline__ uint32_t pack(float low, float high) {
    return static_cast<uint32_t>(f16_of(low)) | static_cast<uint32_t>(f16_of(high)) << 16;
  }
};

struct Bf16 {
  using Operand = short __attribute__((ext_vector_type(4)));
  static __device__ __forceinline__ Accumulator multiply_add(Dwords2 a, Dwords2 b, Accumulator c) {
    return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(__builtin_bit_cast(Operand, a),
                                                    __builtin_bit_cast(Operand, b), c, 0, 0, 0);
  }
  // Round to nearest even, for numbers: weights of the softmax, whose NaNs travel in its sum.
  static __device__ __forceinline__ uint32_t pack(float low, float high) {
    uint32_t x = __builtin_bit_cast(uint32_t, low);
    uint32_t y = __builtin_bit_cast(uint32_t, high);
    x += 0x7fffU + (x >> 16 & 1U);
    y += 0x7fffU + (y >> 16 & 1U);
    return __builtin_amdgcn_perm(y, x, 0x07060302U);
  }
};

}  // namespace flashattn::hip
