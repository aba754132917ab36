// SPDX-License-Identifier: Apache-2.0
// The unit of work: some rows of one or a few KV heads over some keys, and what is left of it.
#pragma once

#include <cstdint>

#include "backends/cpu/mask.h"
#include "backends/cpu/sequence.h"
#include "backends/cpu/shape.h"
#include "flashattn.h"

namespace flashattn::cpu {

// The query heads that share a KV head are packed: packed row p of a sequence and KV head is query p / group
// of head kv_head * group + p % group, so that one pass over K and V serves the whole group. The rows of a
// tile are those of its first KV head, then those of the next.
struct Tile {
  const Shape *shape;
  const flashattn_call_t *call;
  Sequence sequence;
  int32_t kv_head;    // the first one
  int32_t heads;      // KV heads
  int64_t first_row;  // packed row, within the n_q * group of each KV head
  int32_t rows;       // of each KV head
  KeyRange keys;      // the keys to look at; begin is a multiple of the kernel's block. May be empty
};

// Query and head of row r of the tile, 0 <= r < heads * rows.
int64_t query_of(const Tile &tile, int32_t r);
int32_t head_of(const Tile &tile, int32_t r);

// Keys row r sees, clipped to the tile's.
KeyRange visible_keys(const Tile &tile, int32_t r);

// Online-softmax state of the rows of a tile over the keys seen so far (Milakov & Gimelshein 2018, section
// 3):
//   max m = max_j s_j,  sum l = sum_j exp(s_j - m),  o = sum_j exp(s_j - m) V_j.
// Before any key m = -inf, l = 0, o = 0.
struct State {
  float *o;          // rows x stride_o, columns at or past dim_v are scratch
  int64_t stride_o;  // floats from row to row, >= dim_v
  float *max;
  float *sum;
};

// Floats a State of this many rows takes, and a State laid over that memory. stride_o is padded so that a
// kernel may write whole vectors.
int64_t state_floats(int64_t rows, int32_t dim_v);
State state_over(float *memory, int64_t rows, int32_t dim_v);

}  // namespace flashattn::cpu
