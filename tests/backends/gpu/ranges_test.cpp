// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/ranges.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "backends/gpu/args.h"

namespace flashattn::gpu {
namespace {

// The interface's rule, word for word.
bool sees(int64_t i, int64_t j, int64_t d, int64_t left, int64_t right, int32_t n_k) {
  return j >= 0 && j < n_k && j >= i + d - left && j <= i + d + right;
}

}  // namespace

TEST_CASE("ranges: the interval of a query holds exactly the keys it sees") {
  std::mt19937 random(std::random_device{}());
  const auto draw = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int trial = 0; trial < 3000; ++trial) {
    const int32_t n_k = draw(0, 40);
    const int64_t d = draw(-50, 50);
    const int64_t left = draw(0, 3) == 0 ? kUnbounded : draw(0, 20);
    const int64_t right = draw(0, 3) == 0 ? kUnbounded : draw(0, 20);
    for (int64_t i = 0; i < 20; ++i) {
      const KeyRange range = visible_keys(i, d, left, right, n_k);
      CHECK(range.begin >= 0);
      CHECK(range.end <= n_k);
      for (int32_t j = 0; j < n_k; ++j) {
        REQUIRE((j >= range.begin && j < range.end) == sees(i, j, d, left, right, n_k));
      }
    }
  }
}

TEST_CASE("ranges: extreme diagonals do not overflow") {
  const int64_t far = int64_t{3} * INT32_MAX;
  CHECK(visible_keys(INT32_MAX, far, 0, 0, 100).end == 100);
  CHECK(visible_keys(0, -far, kUnbounded, 0, 100).end == 0);
  CHECK(visible_keys(0, far, kUnbounded, kUnbounded, INT32_MAX).end == INT32_MAX);
  CHECK(visible_keys(0, far, kUnbounded, kUnbounded, INT32_MAX).begin == 0);
}

TEST_CASE("ranges: tiles of packed rows are the union and the intersection of their rows") {
  const int32_t group = 3;
  for (int32_t first = 0; first < 30; first += 7) {
    for (const int64_t right : {int64_t{0}, int64_t{4}, kUnbounded}) {
      const KeyRange any = visible_to_rows(first, first + 6, group, -2, 5, right, 20);
      const KeyRange all = visible_to_all_rows(first, first + 6, group, -2, 5, right, 20);
      for (int32_t j = 0; j < 20; ++j) {
        bool seen_by_one = false;
        bool seen_by_all = true;
        for (int64_t r = first; r <= first + 6; ++r) {
          const bool seen = sees(r / group, j, -2, 5, right, 20);
          seen_by_one |= seen;
          seen_by_all &= seen;
        }
        if (seen_by_one) CHECK((j >= any.begin && j < any.end));
        if (j >= all.begin && j < all.end) CHECK(seen_by_all);
      }
    }
  }
}

TEST_CASE("ranges: splits cover every block once, in order, as evenly as blocks allow") {
  for (const KeyRange keys :
       {KeyRange{0, 1}, KeyRange{0, 640}, KeyRange{65, 641}, KeyRange{63, 64}, KeyRange{5, 5}}) {
    for (int32_t splits = 1; splits <= 12; ++splits) {
      int32_t next = keys.end > keys.begin ? keys.begin / 64 : 0;
      int32_t least = INT32_MAX;
      int32_t most = 0;
      for (int32_t split = 0; split < splits; ++split) {
        const KeyRange blocks = split_blocks(keys, 64, split, splits);
        CHECK(blocks.begin == next);
        next = blocks.end;
        least = std::min(least, blocks.end - blocks.begin);
        most = std::max(most, blocks.end - blocks.begin);
      }
      CHECK(next == (keys.end > keys.begin ? (keys.end + 63) / 64 : 0));
      CHECK(most - least <= 1);
    }
  }
}

}  // namespace flashattn::gpu
