// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/tile.h"

#include <algorithm>

namespace flashattn::cpu {
namespace {

constexpr int64_t kPad = 16;  // floats in the widest vector and in a cache line

int64_t padded(int64_t floats) {
  return (floats + kPad - 1) / kPad * kPad;
}

}  // namespace

int64_t query_of(const Tile &tile, int32_t r) {
  return (tile.first_row + r % tile.rows) / tile.shape->group;
}

int32_t head_of(const Tile &tile, int32_t r) {
  const int32_t group = tile.shape->group;
  const int32_t kv_head = tile.kv_head + r / tile.rows;
  return kv_head * group + static_cast<int32_t>((tile.first_row + r % tile.rows) % group);
}

KeyRange visible_keys(const Tile &tile, int32_t r) {
  const KeyRange seen =
      visible_keys(*tile.shape, tile.sequence.n_k, tile.sequence.diagonal, query_of(tile, r));
  return {std::max(seen.begin, tile.keys.begin), std::min(seen.end, tile.keys.end)};
}

int64_t state_floats(int64_t rows, int32_t dim_v) {
  return rows * padded(dim_v) + 2 * padded(rows);
}

State state_over(float *memory, int64_t rows, int32_t dim_v) {
  const int64_t stride = padded(dim_v);
  float *max = memory + rows * stride;
  return {memory, stride, max, max + padded(rows)};
}

}  // namespace flashattn::cpu
