// SPDX-License-Identifier: Apache-2.0
#include "bindings/ggml/mask.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "tests/support/dtype.h"

namespace flashattn::ggml {
namespace {

constexpr uint16_t kHidden = 0xfc00;
constexpr int32_t kKeys = 300;
constexpr int64_t kStride = 320;

using Rows = std::vector<uint16_t>;

// sees(i, j): whether row i sees key j.
Rows make_mask(int32_t num_rows, const std::function<bool(int32_t, int32_t)> &sees) {
  Rows mask(num_rows * kStride, 0x3c00);  // 1 between the rows
  for (int32_t i = 0; i < num_rows; ++i) {
    for (int32_t j = 0; j < kKeys; ++j) mask[i * kStride + j] = sees(i, j) ? 0 : kHidden;
  }
  return mask;
}

std::vector<MaskSegment> segments_of(const Rows &mask, MaskValues values = MaskValues::kZero) {
  std::vector<MaskSegment> segments;
  read_mask_segments(mask.data(), kStride, static_cast<int32_t>(mask.size() / kStride), kKeys, values,
                     &segments);
  return segments;
}

// What the segment says of row i, counted from its first, and key j.
bool seen(const MaskSegment &segment, int32_t i, int32_t j) {
  const int32_t key = j - segment.first_key;
  if (key < 0 || key >= segment.num_keys) return false;
  if (!segment.causal) return true;
  const int32_t last = i + segment.num_keys - segment.num_rows;
  return key <= last && (segment.window == 0 || key > last - segment.window);
}

// Segments cover all rows in order, hide nothing that the mask shows and, when they are bands, show nothing it hides.
void check_faithful(const Rows &mask, const std::vector<MaskSegment> &segments) {
  int32_t row = 0;
  for (const MaskSegment &segment : segments) {
    REQUIRE(segment.first_row == row);
    for (int32_t i = 0; i < segment.num_rows; ++i, ++row) {
      for (int32_t j = 0; j < kKeys; ++j) {
        const bool shown = mask[row * kStride + j] != kHidden;
        if (segment.band) {
          REQUIRE(seen(segment, i, j) == shown);
        } else if (shown) {
          REQUIRE(j >= segment.first_key);
          REQUIRE(j < segment.first_key + segment.num_keys);
        }
      }
    }
  }
  CHECK(row == static_cast<int32_t>(mask.size() / kStride));
}

TEST_CASE("a causal mask with unused keys behind it is one causal segment without them") {
  const Rows mask = make_mask(70, [](int32_t i, int32_t j) { return j <= i + 100; });
  const auto segments = segments_of(mask);
  check_faithful(mask, segments);
  REQUIRE(segments.size() == 1);
  CHECK(segments[0].band);
  CHECK(segments[0].causal);
  CHECK(segments[0].window == 0);
  CHECK(segments[0].num_keys == 170);
}

TEST_CASE("a causal mask that begins behind another sequence's keys leaves these out") {
  const Rows mask = make_mask(40, [](int32_t i, int32_t j) { return j >= 130 && j <= i + 130; });
  const auto segments = segments_of(mask);
  check_faithful(mask, segments);
  REQUIRE(segments.size() == 1);
  CHECK(segments[0].first_key == 130);
  CHECK(segments[0].num_keys == 40);
}

TEST_CASE("a sliding window is one segment, also when its first rows are not yet full") {
  for (const int32_t start : {0, 10, 63, 64, 120}) {
    const Rows mask =
        make_mask(150, [start](int32_t i, int32_t j) { return j <= i + start && j > i + start - 64; });
    const auto segments = segments_of(mask);
    check_faithful(mask, segments);
    REQUIRE(segments.size() == 1);
    CHECK(segments[0].causal);
    CHECK(segments[0].window == 64);
  }
}

TEST_CASE("a full mask, one token and a row without keys are bands without causality") {
  for (const int32_t keys : {kKeys, 1, 129, 0}) {
    const Rows mask = make_mask(5, [keys](int32_t, int32_t j) { return j < keys; });
    const auto segments = segments_of(mask);
    check_faithful(mask, segments);
    REQUIRE(segments.size() == 1);
    CHECK(segments[0].band);
    CHECK_FALSE(segments[0].causal);
    CHECK(segments[0].num_keys == keys);
  }
}

TEST_CASE("tokens of several sequences in one batch are a segment each") {
  // One token of a sequence at keys 0 .. 99, then a prompt at 100 .., then a token of a third at 200 .. 249.
  const Rows mask = make_mask(32, [](int32_t i, int32_t j) {
    if (i == 0) return j < 100;
    if (i == 31) return j >= 200 && j < 250;
    return j >= 100 && j < 100 + i;
  });
  const auto segments = segments_of(mask);
  check_faithful(mask, segments);
  CHECK(segments.size() == 3);
}

TEST_CASE("one element that is out of line anywhere makes its row a bias") {
  std::mt19937 random(std::random_device{}());
  for (int round = 0; round < 400; ++round) {
    Rows mask = make_mask(60, [](int32_t i, int32_t j) { return j <= i + 150; });
    const auto i = static_cast<int32_t>(random() % 60);
    // Not the key at the edge: that makes a row one shorter or longer, which is a band again.
    const auto j = static_cast<int32_t>(random() % 140);
    const uint16_t values[] = {kHidden, 0x8000, 0x3c00, 0x7c00, 0x7e00, 0x0001, 0xfbff};
    mask[i * kStride + j] = values[random() % 7];
    if (j == 0 && mask[i * kStride + j] == kHidden) continue;  // begins one later: a band
    const auto segments = segments_of(mask);
    check_faithful(mask, segments);
    bool biased = false;
    for (const MaskSegment &segment : segments) {
      if (i >= segment.first_row && i < segment.first_row + segment.num_rows) biased = !segment.band;
    }
    CHECK(biased);
  }
}

TEST_CASE("whatever the mask, its segments say the same") {
  std::mt19937 random(std::random_device{}());
  const auto below = [&random](int32_t limit) {
    return std::uniform_int_distribution<int32_t>(0, limit - 1)(random);
  };
  for (int round = 0; round < 300; ++round) {
    const int32_t jumps = below(5);  // out of 8 rows
    std::vector<int32_t> begin(24), end(24);
    for (int32_t i = 0; i < 24; ++i) {
      begin[i] = i == 0 || below(8) < jumps ? below(40) : begin[i - 1] + below(2);
      end[i] = i == 0 || below(8) < jumps ? below(kKeys) : end[i - 1] + below(2);
    }
    const Rows mask = make_mask(24, [&](int32_t i, int32_t j) { return j >= begin[i] && j < end[i]; });
    check_faithful(mask, segments_of(mask));
  }
}

Rows make_alibi(int32_t num_rows, int32_t start) {
  Rows mask = make_mask(num_rows, [start](int32_t i, int32_t j) { return j <= i + start; });
  for (int32_t i = 0; i < num_rows; ++i) {
    for (int32_t j = 0; j <= i + start; ++j) {
      mask[i * kStride + j] = test::f16_from_float(static_cast<float>(j - i - start));
    }
  }
  return mask;
}

TEST_CASE("a mask of exact distances is a band with ALiBi, and one that is off by one is not") {
  Rows mask = make_alibi(50, 120);
  const auto segments = segments_of(mask, MaskValues::kAlibi);
  check_faithful(mask, segments);
  REQUIRE(segments.size() == 1);
  CHECK(segments[0].causal);
  mask[20 * kStride + 30] ^= 1;
  const auto changed = segments_of(mask, MaskValues::kAlibi);
  check_faithful(mask, changed);
  REQUIRE(changed.size() == 3);
  CHECK_FALSE(changed[1].band);
}

TEST_CASE("rows alike are no band with ALiBi") {
  Rows mask = make_alibi(1, 99);
  const Rows one = mask;
  mask.insert(mask.end(), one.begin(), one.end());
  CHECK(segments_of(mask, MaskValues::kAlibi).size() == 2);
}

}  // namespace
}  // namespace flashattn::ggml
