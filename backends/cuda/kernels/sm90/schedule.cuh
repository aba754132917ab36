// SPDX-License-Identifier: Apache-2.0
// Which tiles a block runs, in which order.
//
// The grid is persistent: a block starts with the tile of its own number and then draws from a counter. Heads
// are taken `heads_per_group` at a time, so that the K and V in use fit in L2; inside a group the tiles of
// all its heads go from the last rows to the first when causal, because those see the most keys: the longest
// start first and the short ones fill the gaps at the end.
#pragma once

#include "config.cuh"
#include "params.h"

namespace flashattn::sm90 {

template <int kBlockM>
__device__ inline Tile tile_at(const FwdParams &p, int index) {
  const int group_tiles = p.heads_per_group * p.m_tiles;
  const int group = index / group_tiles;
  const int within = index - group * group_tiles;
  const int first = group * p.heads_per_group;
  const int heads_here = min(p.heads_per_group, p.batch_heads - first);
  const int step = within / heads_here;
  const int batch_head = first + within - step * heads_here;
  const int m = p.causal ? p.m_tiles - 1 - step : step;
  Tile tile;
  tile.first_row = m * kBlockM;
  tile.batch = batch_head / p.heads;
  tile.head = batch_head - tile.batch * p.heads;
  tile.redo = 0;
  return tile;
}

// The counter holds how many tiles beyond the grid's first ones were drawn. Every block draws until it is
// refused once, so there are (total - grid) + grid draws: the one that got total - 1 is the last and sets the
// counter back for the next launch. The host launches min(total, SM count) blocks.
__device__ inline int accept_draw(const FwdParams &p, int drawn) {
  if (drawn == p.total_tiles - 1) *p.tile_counter = 0;
  return drawn + static_cast<int>(gridDim.x);
}

// Blocks of keys that rows [first_row, first_row + rows) of a sequence need: those before `all_visible` need
// no mask, and of the last one only the first `tail` keys are visible to any row.
struct KeyRange {
  int end;
  int all_visible;
  int tail;
};

template <int kBlockN>
__device__ inline KeyRange key_range(const FwdParams &p, int first_row, int rows) {
  const int last_row = min(first_row + rows, p.n_q) - 1;
  int most = p.n_k, least = p.n_k;  // visible keys of the last and of the first row
  if (p.causal) {
    most = max(0, min(most, last_row + p.diagonal + 1));
    least = max(0, min(least, first_row + p.diagonal + 1));
  }
  if (first_row >= p.n_q) most = 0;
  const int end = (most + kBlockN - 1) / kBlockN;
  return {end, least / kBlockN, most - (end - 1) * kBlockN};
}

}  // namespace flashattn::sm90
