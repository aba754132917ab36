// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/mask.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace flashattn::cpu::test {
namespace {

// The rule of flashattn.h, key by key.
bool sees(const Shape &shape, int64_t n_k, int64_t d, int64_t i, int64_t j) {
  if (j < 0 || j >= n_k) return false;
  if (shape.causal && j > i + d) return false;
  if (shape.window_left >= 0 && j < i + d - shape.window_left) return false;
  return shape.window_right < 0 || j <= i + d + shape.window_right;
}

}  // namespace

TEST_CASE("visible_keys: the interval holds exactly the keys that the rule shows") {
  std::mt19937 random(std::random_device{}());
  const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  for (int round = 0; round < 2000; ++round) {
    Shape shape{};
    shape.causal = draw(0, 1) != 0;
    shape.window_left = draw(-1, 12);
    shape.window_right = draw(-1, 12);
    const int64_t n_q = draw(1, 20);
    const int64_t n_k = draw(0, 40);
    const int64_t d = n_k - n_q + draw(-30, 30);
    KeyRange before{0, 0};
    for (int64_t i = 0; i < n_q; ++i) {
      const KeyRange keys = visible_keys(shape, n_k, d, i);
      for (int64_t j = -2; j < n_k + 2; ++j) {
        REQUIRE((j >= keys.begin && j < keys.end) == sees(shape, n_k, d, i, j));
      }
      REQUIRE(keys.begin >= before.begin);
      REQUIRE(keys.end >= before.end);
      before = keys;
    }
    const int64_t first = draw(0, static_cast<int>(n_q) - 1);
    const int64_t last = draw(static_cast<int>(first), static_cast<int>(n_q) - 1);
    const KeyRange all = visible_keys(shape, n_k, d, first, last);
    for (int64_t j = 0; j < n_k; ++j) {
      for (int64_t i = first; i <= last; ++i) {
        if (sees(shape, n_k, d, i, j)) REQUIRE((j >= all.begin && j < all.end));
      }
    }
  }
}

TEST_CASE("visible_keys: positions far outside 32 bits") {
  Shape shape{};
  shape.causal = true;
  shape.window_left = 2147483647;
  shape.window_right = -1;
  const int64_t huge = int64_t{3} << 31;
  CHECK(visible_keys(shape, 100, huge, 5).begin == 100);
  CHECK(visible_keys(shape, 100, -huge, 5).end == 0);
  CHECK(visible_keys(shape, 2147483647, 0, 2147483646).end == 2147483647);
}

}  // namespace flashattn::cpu::test
