// SPDX-License-Identifier: Apache-2.0
// f16 and bf16, all 65536 values and the points where narrowing turns from one to the next.
#include "backends/cpu/convert.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "flashattn.h"
#include "tests/backends/cpu/simd_probe.h"

namespace flashattn::cpu::test {
namespace {

struct Format {
  const char *name;
  int32_t dtype;
  int exponent_bits;
  int mantissa_bits;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
};

const Format kFormats[] = {
    {"f16", FLASHATTN_DTYPE_F16, 5, 10, f16_to_f32, f32_to_f16},
    {"bf16", FLASHATTN_DTYPE_BF16, 8, 7, bf16_to_f32, f32_to_bf16},
};

// The value by the definition of the format.
double value_of(const Format &format, uint16_t bits) {
  const int exponent = bits >> format.mantissa_bits & ((1 << format.exponent_bits) - 1);
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const int hidden = exponent == 0 ? 0 : 1 << format.mantissa_bits;
  return sign * std::ldexp(hidden + mantissa, std::max(exponent, 1) - bias - format.mantissa_bits);
}

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || bits_of(a) == bits_of(b);
}

}  // namespace

TEST_CASE("widening gives the value of every bit pattern") {
  for (const Format &format : kFormats) {
    INFO(std::string(format.name));
    int wrong = 0;
    for (int bits = 0; bits < 65536; ++bits) {
      const auto exact = static_cast<float>(value_of(format, static_cast<uint16_t>(bits)));
      wrong += same(format.widen(static_cast<uint16_t>(bits)), exact) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("narrowing gives back every value, and NaN for NaN") {
  for (const Format &format : kFormats) {
    INFO(std::string(format.name));
    int wrong = 0;
    for (int bits = 0; bits < 65536; ++bits) {
      const float value = format.widen(static_cast<uint16_t>(bits));
      const uint16_t back = format.narrow(value);
      wrong += std::isnan(value) ? !std::isnan(format.widen(back)) : back != bits;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("narrowing rounds to nearest, ties to even, the largest ones to infinity") {
  for (const Format &format : kFormats) {
    INFO(std::string(format.name));
    const int infinity = ((1 << format.exponent_bits) - 1) << format.mantissa_bits;
    int wrong = 0;
    for (int bits = 0; bits < infinity; ++bits) {
      // Half way to the next value; behind the largest one as if its successor were finite.
      const double low = value_of(format, static_cast<uint16_t>(bits));
      const double step = bits + 1 < infinity ? value_of(format, static_cast<uint16_t>(bits + 1)) - low
                                              : low - value_of(format, static_cast<uint16_t>(bits - 1));
      const auto middle = static_cast<float>(low + step / 2);
      if (middle != low + step / 2) continue;  // not an f32: below the subnormals of bf16
      const int even = bits + (bits & 1);
      wrong += format.narrow(middle) != even;
      wrong += format.narrow(-middle) != (even | 0x8000);
      wrong += format.narrow(std::nextafterf(middle, 0.0F)) != bits;
      wrong += format.narrow(std::nextafterf(middle, std::numeric_limits<float>::infinity())) != bits + 1;
    }
    CHECK(wrong == 0);
    CHECK(format.narrow(std::numeric_limits<float>::max()) == infinity);
  }
}

TEST_CASE("the SIMD kernels convert as convert.h does") {
  for (const SimdProbe *probe : simd_probes()) {
    for (const Format &format : kFormats) {
      INFO(std::string(probe->name), " ", std::string(format.name));
      std::vector<uint16_t> all(65536);
      for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
      std::vector<float> wide(65536 + 16);
      probe->load_row(format.dtype, all.data(), 65536, wide.data());
      int wrong = 0;
      for (size_t i = 0; i < all.size(); ++i) wrong += same(wide[i], format.widen(all[i])) ? 0 : 1;
      CHECK(wrong == 0);

      // Values, values between, and a tail that is no whole vector.
      std::vector<float> values(2 * 65536 + 16);
      for (size_t i = 0; i < 65536; ++i) {
        values[2 * i] = wide[i];
        values[2 * i + 1] = wide[i] * 1.0029296875F;
      }
      const int32_t n = 2 * 65536 - 3;
      std::vector<uint16_t> narrow(2 * 65536, 0xABCD);
      probe->store_row(format.dtype, values.data(), n, narrow.data());
      for (int32_t i = 0; i < n; ++i) {
        const uint16_t expected = format.narrow(values[static_cast<size_t>(i)]);
        const bool both_nan = std::isnan(format.widen(expected)) && std::isnan(format.widen(narrow[i]));
        wrong += both_nan || narrow[i] == expected ? 0 : 1;
      }
      CHECK(wrong == 0);
      CHECK(narrow[n] == 0xABCD);
    }
  }
}

}  // namespace flashattn::cpu::test
