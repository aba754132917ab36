// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/element.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace flashattn::cli;

namespace {

// The value of a binary16 by the definition of the format.
double half_value(int bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

}  // namespace

TEST_CASE("every f16 converts to its value and back") {
  for (int bits = 0; bits < 65536; ++bits) {
    const float value = half_to_float(static_cast<uint16_t>(bits));
    const double wanted = half_value(bits);
    if (std::isnan(wanted)) {
      REQUIRE(std::isnan(value));
      REQUIRE(std::isnan(half_to_float(float_to_half(value))));
    } else {
      REQUIRE(value == wanted);
      REQUIRE(float_to_half(value) == bits);
    }
  }
}

TEST_CASE("float rounds to the nearest f16, ties to even, also between subnormals and to infinity") {
  for (int bits = 0; bits < 0x7C00; ++bits) {
    const double low = half_value(bits);
    const double high = bits == 0x7BFF ? 65536 : half_value(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    REQUIRE(float_to_half(middle) == (bits % 2 == 0 ? bits : bits + 1));
    REQUIRE(float_to_half(std::nextafterf(middle, 0)) == bits);
    REQUIRE(float_to_half(std::nextafterf(middle, 1e9F)) == bits + 1);
    REQUIRE(float_to_half(-std::nextafterf(middle, 1e9F)) == (bits + 1) + 0x8000);
  }
  CHECK(float_to_half(INFINITY) == 0x7C00);
}

TEST_CASE("bf16 is the upper half of a float, rounded to nearest even") {
  CHECK(bfloat16_to_float(0x3F80) == 1.0F);
  CHECK(bfloat16_to_float(0xC040) == -3.0F);
  CHECK(float_to_bfloat16(1.00390625F) == 0x3F80);  // 1 + 2^-8, a tie: to even
  CHECK(float_to_bfloat16(1.01171875F) == 0x3F82);  // 1 + 3 * 2^-8, a tie: to even
  CHECK(float_to_bfloat16(1.00390637F) == 0x3F81);  // just above the tie
  CHECK(float_to_bfloat16(3.4e38F) == 0x7F80);      // past the largest
  CHECK(std::isnan(bfloat16_to_float(float_to_bfloat16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST_CASE("ulp") {
  CHECK(ulp(Element::kF32, 1.0) == std::ldexp(1.0, -23));
  CHECK(ulp(Element::kF16, 1.5) == std::ldexp(1.0, -10));
  CHECK(ulp(Element::kF16, -8.0) == std::ldexp(1.0, -7));
  CHECK(ulp(Element::kF16, 0.0) == std::ldexp(1.0, -24));
  CHECK(ulp(Element::kBf16, 0.75) == std::ldexp(1.0, -8));
}
