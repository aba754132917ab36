// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/element.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "flashattn.h"
#include "tools/cli/error.h"

namespace flashattn::cli {

namespace {

struct ElementRow {
  Element element;
  const char *name;
  int32_t dtype;
  int size;
  int mantissa_bits;
  int min_exponent;  // of the smallest normal number
};

constexpr ElementRow kElements[] = {
    {Element::kF32, "f32", FLASHATTN_DTYPE_F32, 4, 23, -126},
    {Element::kF16, "f16", FLASHATTN_DTYPE_F16, 2, 10, -14},
    {Element::kBf16, "bf16", FLASHATTN_DTYPE_BF16, 2, 7, -126},
    {Element::kU8, "u8", FLASHATTN_DTYPE_U8, 1, 0, 0},
};

const ElementRow &row_of(Element element) {
  return kElements[static_cast<int>(element)];
}

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

}  // namespace

int64_t element_size(Element element) {
  return row_of(element).size;
}
const char *element_name(Element element) {
  return row_of(element).name;
}
int32_t element_dtype(Element element) {
  return row_of(element).dtype;
}

Element element_of_name(std::string_view name) {
  for (const ElementRow &row : kElements) {
    if (name == row.name) return row.element;
  }
  throw InputError("element type is '" + std::string(name) + "'; known are f32, f16, bf16 and u8");
}

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1FU;
  const uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 31) return float_of(sign | 0x7F800000U | (mantissa << 13));
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  return float_of(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t float_to_half(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7E00U);
  if (magnitude >= 65520.0F) return static_cast<uint16_t>(sign | 0x7C00U);
  if (magnitude <
      std::ldexp(1.0F, -14)) {  // a multiple of 2^-24; 1024 of them are the smallest normal number
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, 24))));
  }
  const uint32_t rounded = (bits & 0x7FFFFFFFU) + 0xFFFU + ((bits >> 13) & 1U);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112U << 10)));
}

float bfloat16_to_float(uint16_t bits) {
  return float_of(static_cast<uint32_t>(bits) << 16);
}

uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = bits_of(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

float load_element(Element element, const void *data, int64_t index) {
  const auto *bytes = static_cast<const unsigned char *>(data) + index * element_size(element);
  if (element == Element::kU8) return static_cast<float>(*bytes);
  if (element == Element::kF32) {
    float value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return element == Element::kF16 ? half_to_float(bits) : bfloat16_to_float(bits);
}

float round_to(Element element, float value) {
  if (element == Element::kF16) return half_to_float(float_to_half(value));
  if (element == Element::kBf16) return bfloat16_to_float(float_to_bfloat16(value));
  return value;
}

double ulp(Element element, double value) {
  const ElementRow &row = row_of(element);
  const int exponent = value == 0 ? row.min_exponent : std::max(std::ilogb(value), row.min_exponent);
  return std::ldexp(1.0, exponent - row.mantissa_bits);
}

}  // namespace flashattn::cli
