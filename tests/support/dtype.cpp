// SPDX-License-Identifier: Apache-2.0
#include "tests/support/dtype.h"

#include <algorithm>
#include <limits>

namespace flashattn::test {
namespace {

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

struct Format {
  int precision;     // significant bits, the implicit one included
  int min_exponent;  // of the smallest normal number, as in 1.x * 2^e
};

Format format_of(int32_t dtype) {
  switch (dtype) {
    case FLASHATTN_DTYPE_F16:
      return {11, -14};
    case FLASHATTN_DTYPE_BF16:
      return {8, -126};
    default:
      return {24, -126};
  }
}

}  // namespace

uint16_t f16_from_float(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double magnitude = std::fabs(static_cast<double>(value));
  // Halfway between the largest finite value 65504 and 65536, which rounds to even, upwards.
  if (magnitude >= 65520.0) return sign | 0x7c00;
  if (magnitude < std::ldexp(1.0, -14)) {
    return static_cast<uint16_t>(sign + static_cast<int>(std::nearbyint(std::ldexp(magnitude, 24))));
  }
  const int exponent = std::ilogb(magnitude);
  const int significand = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // A significand rounded up to 2048 carries into the exponent by plain addition.
  return static_cast<uint16_t>(sign + ((exponent + 14) << 10) + significand);
}

float f16_to_float(uint16_t bits) {
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  if (exponent == 31) {
    return fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
                         : sign * std::numeric_limits<float>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

uint16_t bf16_from_float(float value) {
  const uint32_t bits = bits_of(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float bf16_to_float(uint16_t bits) {
  return float_of(static_cast<uint32_t>(bits) << 16);
}

int64_t dtype_size(int32_t dtype) {
  switch (dtype) {
    case FLASHATTN_DTYPE_F32:
      return 4;
    case FLASHATTN_DTYPE_F16:
    case FLASHATTN_DTYPE_BF16:
      return 2;
    default:
      return 1;
  }
}

const char *dtype_name(int32_t dtype) {
  switch (dtype) {
    case FLASHATTN_DTYPE_F32:
      return "f32";
    case FLASHATTN_DTYPE_F16:
      return "f16";
    case FLASHATTN_DTYPE_BF16:
      return "bf16";
    case FLASHATTN_DTYPE_U8:
      return "u8";
    default:
      return "none";
  }
}

float decode(int32_t dtype, const void *element) {
  uint16_t half;
  switch (dtype) {
    case FLASHATTN_DTYPE_F32: {
      float value;
      std::memcpy(&value, element, sizeof(value));
      return value;
    }
    case FLASHATTN_DTYPE_F16:
      std::memcpy(&half, element, sizeof(half));
      return f16_to_float(half);
    case FLASHATTN_DTYPE_BF16:
      std::memcpy(&half, element, sizeof(half));
      return bf16_to_float(half);
    default:
      return *static_cast<const uint8_t *>(element);
  }
}

void encode(int32_t dtype, float value, void *element) {
  uint16_t half;
  switch (dtype) {
    case FLASHATTN_DTYPE_F32:
      std::memcpy(element, &value, sizeof(value));
      return;
    case FLASHATTN_DTYPE_F16:
      half = f16_from_float(value);
      break;
    case FLASHATTN_DTYPE_BF16:
      half = bf16_from_float(value);
      break;
    default:
      *static_cast<uint8_t *>(element) = static_cast<uint8_t>(value);
      return;
  }
  std::memcpy(element, &half, sizeof(half));
}

float round_to(int32_t dtype, float value) {
  switch (dtype) {
    case FLASHATTN_DTYPE_F16:
      return f16_to_float(f16_from_float(value));
    case FLASHATTN_DTYPE_BF16:
      return bf16_to_float(bf16_from_float(value));
    default:
      return value;
  }
}

double unit_roundoff(int32_t dtype) {
  return std::ldexp(1.0, -format_of(dtype).precision);
}

double ulp(int32_t dtype, double magnitude) {
  const Format format = format_of(dtype);
  const int exponent =
      magnitude > 0 ? std::max(std::ilogb(magnitude), format.min_exponent) : format.min_exponent;
  return std::ldexp(1.0, exponent - format.precision + 1);
}

}  // namespace flashattn::test
