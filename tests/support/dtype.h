// SPDX-License-Identifier: Apache-2.0
// Element types for tests: conversions written apart from the library's, so that a fault there cannot hide.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "flashattn.h"

namespace flashattn::test {

// IEEE 754 binary32 <-> binary16 and bfloat16, round to nearest even, NaN stays NaN.
uint16_t f16_from_float(float value);
float f16_to_float(uint16_t bits);
uint16_t bf16_from_float(float value);
float bf16_to_float(uint16_t bits);

// Bytes of one element of a FLASHATTN_DTYPE_*.
int64_t dtype_size(int32_t dtype);
const char *dtype_name(int32_t dtype);

// One element; encode rounds to nearest even.
float decode(int32_t dtype, const void *element);
void encode(int32_t dtype, float value, void *element);

// value rounded to dtype.
float round_to(int32_t dtype, float value);

// Relative rounding error of one operation: 2^-24, 2^-11, 2^-8.
double unit_roundoff(int32_t dtype);

// Distance between neighbouring values of dtype at this magnitude, the smallest subnormal at zero.
double ulp(int32_t dtype, double magnitude);

// A quiet NaN in f32, f16 and bf16 alike, repeated every two bytes: whatever must not be read or written
// holds it.
inline constexpr uint16_t kPoison = 0x7fe5;

}  // namespace flashattn::test
