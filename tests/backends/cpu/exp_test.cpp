// SPDX-License-Identifier: Apache-2.0
// The bounds that simd/exp.h states.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "backends/cpu/cpu_features.h"
#include "tests/backends/cpu/simd_probe.h"

namespace flashattn::cpu::test {

std::vector<const SimdProbe *> simd_probes() {
  std::vector<const SimdProbe *> probes;
#if defined(__x86_64__)
  if (cpu_features().avx2) probes.push_back(&kProbeAvx2);
  if (cpu_features().avx512) probes.push_back(&kProbeAvx512);
#elif defined(__aarch64__)
  if (cpu_features().neon) probes.push_back(&kProbeNeon);
#endif
  return probes;
}

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// |value - exact| in units of the spacing of floats at exact.
double ulps(float value, double exact) {
  const double spacing = std::ldexp(1.0, std::max(std::ilogb(exact), -126) - 23);
  return std::fabs(value - exact) / spacing;
}

// Every 101st float with the sign of -1 from -2^-24 to `last`, about two million.
std::vector<float> sample(float last) {
  std::vector<float> values;
  uint32_t bits;
  const float first = -0x1p-24F;
  std::memcpy(&bits, &first, sizeof bits);
  while (true) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    if (value < last) return values;
    values.push_back(value);
    bits += 101;
  }
}

}  // namespace

TEST_CASE("exp_negative: within 1 ulp down to 2^-126, 0 below") {
  for (const SimdProbe *probe : simd_probes()) {
    INFO(std::string(probe->name));
    const std::vector<float> x = sample(-110.0F);
    std::vector<float> y(x.size());
    probe->exp_negative(x.data(), static_cast<int32_t>(x.size()), y.data());
    double worst = 0.0;
    bool zeros = true;
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(x[i]));
      if (exact < 0x1p-126) {
        zeros = zeros && y[i] == 0.0F;
      } else if (exact > 0x1.001p-126) {
        worst = std::max(worst, ulps(y[i], exact));
      }
    }
    MESSAGE("worst error ", worst, " ulp");
    CHECK(worst <= 1.0);
    CHECK(zeros);
  }
}

TEST_CASE("exp_negative: exact at 0, 0 at -inf, NaN at NaN") {
  for (const SimdProbe *probe : simd_probes()) {
    INFO(std::string(probe->name));
    const float x[] = {0.0F, -0.0F, -kInf, kNan, -1e6F, std::numeric_limits<float>::lowest()};
    float y[6];
    probe->exp_negative(x, 6, y);
    CHECK(y[0] == 1.0F);
    CHECK(y[1] == 1.0F);
    CHECK(y[2] == 0.0F);
    CHECK(std::isnan(y[3]));
    CHECK(y[4] == 0.0F);
    CHECK(y[5] == 0.0F);
  }
}

TEST_CASE("tanh: within 2 ulp, odd, 1 at infinity, NaN at NaN") {
  for (const SimdProbe *probe : simd_probes()) {
    INFO(std::string(probe->name));
    const std::vector<float> x = sample(-20.0F);
    std::vector<float> y(x.size());
    probe->tanh(x.data(), static_cast<int32_t>(x.size()), y.data());
    double worst = 0.0;
    for (size_t i = 0; i < x.size(); ++i) {
      worst = std::max(worst, ulps(y[i], std::tanh(static_cast<double>(x[i]))));
    }
    MESSAGE("worst error ", worst, " ulp");
    CHECK(worst <= 2.0);
    const float special[] = {0.0F, kInf, -kInf, kNan, 0.7F, -0.7F, 1e30F};
    float out[7];
    probe->tanh(special, 7, out);
    CHECK(out[0] == 0.0F);
    CHECK(out[1] == 1.0F);
    CHECK(out[2] == -1.0F);
    CHECK(std::isnan(out[3]));
    CHECK(out[4] == -out[5]);
    CHECK(out[6] == 1.0F);
  }
}

}  // namespace flashattn::cpu::test
