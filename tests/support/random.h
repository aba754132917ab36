// SPDX-License-Identifier: Apache-2.0
// Fresh random numbers for every run, from one printed seed: FLASHATTN_TEST_SEED or --seed repeats a run.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace flashattn::test {

// SplitMix64 (Steele, Lea & Flood 2014).
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  // [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // Both ends included.
  int32_t range(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(next() % static_cast<uint64_t>(static_cast<int64_t>(high) - low + 1));
  }

  bool chance(double probability) { return uniform() < probability; }

  template <typename T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[range(0, static_cast<int32_t>(choices.size()) - 1)];
  }
  template <typename T>
  const T &pick(const std::vector<T> &choices) {
    return choices[range(0, static_cast<int32_t>(choices.size()) - 1)];
  }

  // Mean 0, variance 1, within +-3.5: the sum of four uniforms, close enough to normal for tensors.
  float bell() {
    const uint64_t bits = next();
    const int32_t sum = static_cast<int32_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) +
                                             ((bits >> 32) & 0xffff) + (bits >> 48));
    return static_cast<float>(sum - 2 * 0xffff) * (1.7320508F / 65536.0F);
  }

 private:
  uint64_t state_;
};

// The seed of this run. Set once by main, before any test.
uint64_t run_seed();
void set_run_seed(uint64_t seed);

// A generator for one named purpose: the same for every kernel within a run, other for every run.
Rng rng_for(std::string_view purpose);

}  // namespace flashattn::test
