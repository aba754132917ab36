// SPDX-License-Identifier: Apache-2.0
#include "bindings/ggml/mask.h"

#include <algorithm>

namespace flashattn::ggml {
namespace {

constexpr uint16_t kZero = 0;                // f16 +0
constexpr uint16_t kMinusInfinity = 0xfc00;  // f16 -inf
constexpr int32_t kBlock = 64;

// First index in [begin, end) whose element is not value, or end.
int32_t skip(const uint16_t *row, int32_t begin, int32_t end, uint16_t value) {
  while (end - begin >= kBlock) {
    unsigned different = 0;
    for (int32_t j = begin; j < begin + kBlock; ++j) different |= row[j] ^ value;
    if (different != 0) break;
    begin += kBlock;
  }
  while (begin < end && row[begin] == value) ++begin;
  return begin;
}

// One past the last index in [begin, end) whose element is not -inf, or begin.
int32_t visible_end(const uint16_t *row, int32_t begin, int32_t end) {
  while (end > begin && row[end - 1] == kMinusInfinity) --end;
  return end;
}

// Keys [begin, end) of one row: all the others are -inf, and these are as asked for if interval is true.
struct Row {
  int32_t begin;
  int32_t end;
  bool interval;
};

Row read_row(const uint16_t *row, int32_t num_keys) {
  const int32_t begin = skip(row, 0, num_keys, kMinusInfinity);
  const int32_t end = skip(row, begin, num_keys, kZero);
  if (skip(row, end, num_keys, kMinusInfinity) == num_keys) return {begin, end, true};
  return {begin, visible_end(row, end, num_keys), false};
}

constexpr int32_t kLargestDistance = 2048;  // every integer up to 2^11 is an f16

// f16 of -kLargestDistance, .., -1, 0.
struct Distances {
  uint16_t values[kLargestDistance + 1];

  Distances() {
    for (int32_t d = 0; d <= kLargestDistance; ++d) values[kLargestDistance - d] = minus(d);
  }

  // f16 of -d: sign, exponent biased by 15, ten bits of mantissa.
  static uint16_t minus(int32_t d) {
    if (d == 0) return 0;
    int32_t exponent = 0;
    while (d >> (exponent + 1) != 0) ++exponent;
    const int32_t fraction = d - (1 << exponent);
    const int32_t mantissa = exponent <= 10 ? fraction << (10 - exponent) : fraction >> (exponent - 10);
    return static_cast<uint16_t>(0x8000 | ((exponent + 15) << 10) | mantissa);
  }
};

Row read_alibi_row(const uint16_t *row, int32_t num_keys) {
  static const Distances kDistances;
  const int32_t begin = skip(row, 0, num_keys, kMinusInfinity);
  const int32_t end = visible_end(row, begin, num_keys);
  const int32_t count = end - begin;
  const bool interval = count <= kLargestDistance + 1 &&
                        std::equal(row + begin, row + end, kDistances.values + kLargestDistance + 1 - count);
  return {begin, end, interval};
}

// Adds row to the segment if it continues its pattern.
bool extend(MaskSegment *segment, const Row &row, MaskValues values) {
  const int32_t first = segment->first_key;
  const int32_t end = first + segment->num_keys;
  if (segment->band != row.interval) return false;
  if (!segment->band) {  // any row may join; empty ones among them cost nothing
    segment->first_key = std::min(first, row.begin);
    segment->num_keys = std::max(end, row.end) - segment->first_key;
    ++segment->num_rows;
    return true;
  }
  if (segment->num_keys == 0 || row.begin == row.end) {
    // Rows that see nothing go together only with each other.
    if (segment->num_keys != 0 || row.begin != row.end) return false;
    ++segment->num_rows;
    return true;
  }
  const bool alone = segment->num_rows == 1;
  // Rows alike are no band with ALiBi, where each row has a place of its own.
  if (row.begin == first && row.end == end && (alone || !segment->causal) && values == MaskValues::kZero) {
    ++segment->num_rows;
    return true;
  }
  if (row.end != end + 1 || !(alone || segment->causal)) return false;
  // The window is known as soon as one row no longer sees the key that its segment begins with.
  int32_t window = segment->window;
  if (window == 0 && row.begin == first + 1) window = row.end - row.begin;
  if (row.begin != (window == 0 ? first : std::max(first, row.end - window))) return false;
  segment->causal = true;
  segment->window = window;
  ++segment->num_keys;
  ++segment->num_rows;
  return true;
}

}  // namespace

void read_mask_segments(const uint16_t *mask, int64_t stride, int32_t num_rows, int32_t num_keys,
                        MaskValues values, std::vector<MaskSegment> *segments) {
  segments->clear();
  for (int32_t i = 0; i < num_rows; ++i) {
    const uint16_t *elements = mask + i * stride;
    const Row row =
        values == MaskValues::kZero ? read_row(elements, num_keys) : read_alibi_row(elements, num_keys);
    if (!segments->empty() && extend(&segments->back(), row, values)) continue;
    MaskSegment segment;
    segment.first_row = i;
    segment.num_rows = 1;
    segment.first_key = row.begin;
    segment.num_keys = row.end - row.begin;
    segment.band = row.interval;
    segments->push_back(segment);
  }
}

}  // namespace flashattn::ggml
