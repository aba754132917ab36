// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/convert.h"

#include <cstring>

#include "flashattn.h"

namespace flashattn::cpu {
namespace {

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint16_t read_u16(const void *source, int32_t index) {
  uint16_t bits;
  std::memcpy(&bits, static_cast<const char *>(source) + 2 * static_cast<int64_t>(index), sizeof bits);
  return bits;
}

}  // namespace

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000U) << 16;
  const uint32_t magnitude = bits & 0x7FFFU;
  if (magnitude >= 0x7C00U) return float_of(sign | 0x7F800000U | (magnitude & 0x3FFU) << 13);
  if (magnitude >= 0x400U) return float_of(sign | ((magnitude << 13) + ((127U - 15U) << 23)));
  // Subnormal: magnitude units of 2^-24, exact in f32.
  return float_of(sign | bits_of(static_cast<float>(magnitude) * 0x1p-24F));
}

float bf16_to_f32(uint16_t bits) {
  return float_of(static_cast<uint32_t>(bits) << 16);
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t sign = bits >> 16 & 0x8000U;
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U | (magnitude >> 13 & 0x1FFU));
  // 65520 = 0x477FF000 is half way between the largest f16 and 2^16, and ties go to even, which is infinity.
  if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {
    // Below 2^-14 the result is subnormal. Adding 0.5 leaves units of 2^-24 in the low mantissa bits and
    // makes the addition do the rounding.
    const uint32_t rounded = bits_of(float_of(magnitude) + 0.5F) - bits_of(0.5F);
    return static_cast<uint16_t>(sign | rounded);
  }
  const uint32_t odd = magnitude >> 13 & 1U;
  return static_cast<uint16_t>(sign | ((magnitude - ((127U - 15U) << 23) + 0xFFFU + odd) >> 13));
}

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>(bits >> 16 | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

void load_row(int32_t dtype, const void *source, int32_t n, float *out) {
  switch (dtype) {
    case FLASHATTN_DTYPE_F16:
      for (int32_t i = 0; i < n; ++i) out[i] = f16_to_f32(read_u16(source, i));
      return;
    case FLASHATTN_DTYPE_BF16:
      for (int32_t i = 0; i < n; ++i) out[i] = bf16_to_f32(read_u16(source, i));
      return;
    default:
      std::memcpy(out, source, sizeof(float) * static_cast<size_t>(n));
  }
}

void store_row(int32_t dtype, const float *source, int32_t n, void *out) {
  if (dtype == FLASHATTN_DTYPE_F32) {
    std::memcpy(out, source, sizeof(float) * static_cast<size_t>(n));
    return;
  }
  char *bytes = static_cast<char *>(out);
  for (int32_t i = 0; i < n; ++i) {
    const uint16_t bits = dtype == FLASHATTN_DTYPE_F16 ? f32_to_f16(source[i]) : f32_to_bf16(source[i]);
    std::memcpy(bytes + 2 * static_cast<int64_t>(i), &bits, sizeof bits);
  }
}

float load_element(int32_t dtype, const void *source) {
  float value;
  load_row(dtype, source, 1, &value);
  return value;
}

}  // namespace flashattn::cpu
