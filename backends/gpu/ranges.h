// SPDX-License-Identifier: Apache-2.0
// Which keys a row or a tile of rows sees, and how splits share them. Causal masks and windows are one
// interval per query: with d = n_k - n_q + diag_offset, query i sees i + d - left <= j <= i + d + right.
#pragma once

#include <cstdint>

#include "backends/gpu/portable.h"

namespace flashattn::gpu {

FLASHATTN_HOST_DEVICE int64_t clamp64(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : (x > high ? high : x);
}

// Keys begin <= j < end; empty when end <= begin. Both lie in 0..n_k.
struct KeyRange {
  int32_t begin;
  int32_t end;
};

// What query i sees. Both ends rise with i.
FLASHATTN_HOST_DEVICE KeyRange visible_keys(int64_t i, int64_t diagonal, int64_t left, int64_t right,
                                            int32_t n_k) {
  const int64_t position = i + diagonal;
  return {static_cast<int32_t>(clamp64(position - left, 0, n_k)),
          static_cast<int32_t>(clamp64(position + right + 1, 0, n_k))};
}

// The same for packed rows: row r of a KV head is query r / group of query head r % group of that head.
FLASHATTN_HOST_DEVICE KeyRange visible_to_rows(int32_t first_row, int32_t last_row, int32_t group,
                                               int64_t diagonal, int64_t left, int64_t right, int32_t n_k) {
  return {visible_keys(first_row / group, diagonal, left, right, n_k).begin,
          visible_keys(last_row / group, diagonal, left, right, n_k).end};
}

// The keys that every one of those rows sees: between them no mask is needed.
FLASHATTN_HOST_DEVICE KeyRange visible_to_all_rows(int32_t first_row, int32_t last_row, int32_t group,
                                                   int64_t diagonal, int64_t left, int64_t right,
                                                   int32_t n_k) {
  return {visible_keys(last_row / group, diagonal, left, right, n_k).begin,
          visible_keys(first_row / group, diagonal, left, right, n_k).end};
}

// Split number `split` of a range, in whole blocks of `block` keys counted from key 0, as evenly as blocks
// allow. Blocks begin at multiples of `block` whatever the mask, so that a row's sums are formed alike in
// every tile.
FLASHATTN_HOST_DEVICE KeyRange split_blocks(KeyRange keys, int32_t block, int32_t split, int32_t splits) {
  if (keys.end <= keys.begin) return {0, 0};
  const int64_t first = keys.begin / block;
  const int64_t blocks = (static_cast<int64_t>(keys.end) + block - 1) / block - first;
  return {static_cast<int32_t>(first + blocks * split / splits),
          static_cast<int32_t>(first + blocks * (split + 1) / splits)};
}

}  // namespace flashattn::gpu
