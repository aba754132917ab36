// SPDX-License-Identifier: Apache-2.0
// f16 and bf16 to and from f32, one element at a time, by integer arithmetic: the same on every machine.
// Narrowing rounds to nearest, ties to even (IEEE 754-2019, 4.3.1); NaN stays NaN; f16 overflows to infinity.
#pragma once

#include <cstdint>

namespace flashattn::cpu {

float f16_to_f32(uint16_t bits);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
uint16_t f32_to_bf16(float value);

// Rows of n elements of a FLASHATTN_DTYPE_F32, _F16 or _BF16 tensor. Any alignment.
void load_row(int32_t dtype, const void *source, int32_t n, float *out);
void store_row(int32_t dtype, const float *source, int32_t n, void *out);
// Element 0 of such a row.
float load_element(int32_t dtype, const void *source);

}  // namespace flashattn::cpu
