// SPDX-License-Identifier: Apache-2.0
// Number formats of registers: f32, f16 and bf16 as bit patterns.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace flashattn::gcn {

inline float as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t as_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float half_to_float(uint32_t bits) {
  const uint16_t low = static_cast<uint16_t>(bits);
  _Float16 half;
  std::memcpy(&half, &low, sizeof half);
  return static_cast<float>(half);
}

// Round to nearest even, as MODE.round leaves it.
inline uint16_t float_to_half(float value) {
  const _Float16 half = static_cast<_Float16>(value);
  uint16_t bits;
  std::memcpy(&bits, &half, sizeof bits);
  return bits;
}

inline float bf16_to_float(uint32_t bits) {
  return as_float(bits << 16);
}

inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = as_bits(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// V_MAX_F32 and V_MIN_F32: the number of a number and a NaN; +0 is more than -0.
inline float larger(float a, float b) {
  return a > b || b != b || (a == b && as_bits(a) >> 31 == 0) ? a : b;
}
inline float smaller(float a, float b) {
  return a < b || b != b || (a == b && as_bits(a) >> 31 != 0) ? a : b;
}

// Subnormals become zero of the same sign: what the transcendental unit does with its input and output.
inline float flush_subnormal(float value) {
  return std::fabs(value) < 1.17549435e-38F ? std::copysign(0.0F, value) : value;
}

}  // namespace flashattn::gcn
