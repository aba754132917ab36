// SPDX-License-Identifier: Apache-2.0
// Scalar and register-pair operations the softmax and the epilogue are made of.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace flashattn::ptx {

// 2^x, relative error about 2^-22; exp2(-inf) = 0 (PTX ISA, "ex2").
__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two f32 rounded to nearest even into one register, `low` in the lower half (PTX ISA, "cvt").
template <typename Element>
__device__ inline uint32_t pack(float low, float high);

template <>
__device__ inline uint32_t pack<__nv_bfloat16>(float low, float high) {
  uint32_t d;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
  return d;
}

template <>
__device__ inline uint32_t pack<__half>(float low, float high) {
  uint32_t d;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
  return d;
}

// Four 8x8 matrices of 16-bit elements; lane l gives the 16-byte row address of row l % 8 of matrix l / 8
// (PTX ISA, "stmatrix").
__device__ inline void store_matrix_x4(uint32_t smem, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(smem), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

}  // namespace flashattn::ptx
