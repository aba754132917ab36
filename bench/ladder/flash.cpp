// SPDX-License-Identifier: Apache-2.0
// Rung 4: a tile of rows against a tile of keys at a time (Dao et al. 2022, algorithm 1, with the loops as in its
// successor: rows outside). Nothing stored grows with n.
#include <algorithm>

#include "bench/ladder/ladder.h"
#include "bench/ladder/matmul.h"
#include "bench/ladder/online_softmax.h"
#include "bench/ladder/rows.h"

namespace flashattn::ladder {

namespace {

struct Scratch {
  float *s;         // [tile_rows][tile_keys]: scores, then exp(s - m)
  float *kt;        // [dim][tile_keys]: the keys of the tile, transposed
  float *keep;      // [tile_rows]
  RowState *state;  // [tile_rows]
};

int64_t scratch_floats(int64_t dim, int64_t tile_rows, int64_t tile_keys) {
  return tile_rows * tile_keys + dim * tile_keys + 3 * tile_rows;
}

Scratch carve(float *memory, int64_t dim, int64_t tile_rows, int64_t tile_keys) {
  float *kt = memory + tile_rows * tile_keys;
  float *keep = kt + dim * tile_keys;
  return {memory, kt, keep, reinterpret_cast<RowState *>(keep + tile_rows)};
}

// The rows [begin, end), at most a tile of them, against all keys they see.
void attend(const Problem &a, int64_t begin, int64_t end, int64_t tile_keys, const Scratch &t) {
  const int64_t rows = end - begin;
  float *o = a.o + begin * a.dim;
  std::fill(t.state, t.state + rows, RowState{});
  std::fill(o, o + rows * a.dim, 0.0F);
  for (int64_t j = 0; j < a.seen(end - 1); j += tile_keys) {
    const int64_t keys = std::min(tile_keys, a.n - j);
    transpose(a.k + j * a.dim, keys, a.dim, t.kt);
    multiply(rows, keys, a.dim, a.scale, {a.q + begin * a.dim, a.dim}, {t.kt, keys}, nullptr, t.s, keys);
    for (int64_t r = 0; r < rows; ++r) {
      float *s = t.s + r * keys;
      const int64_t seen = std::clamp(a.seen(begin + r) - j, int64_t{0}, keys);
      t.keep[r] = absorb(s, seen, &t.state[r]);
      std::fill(s + seen, s + keys, 0.0F);
    }
    multiply(rows, a.dim, keys, 1, {t.s, keys}, {a.v + j * a.dim, a.dim}, t.keep, o, a.dim);
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t d = 0; d < a.dim; ++d) o[r * a.dim + d] /= t.state[r].d;
  }
}

}  // namespace

int64_t flash_floats(int64_t dim, int threads, int64_t tile_rows, int64_t tile_keys) {
  return threads * scratch_floats(dim, tile_rows, tile_keys);
}

void flash_tiled(const Problem &a, int threads, float *memory, int64_t tile_rows, int64_t tile_keys) {
  for_row_blocks(a.n, tile_rows, threads, [&](int64_t begin, int64_t end, int thread) {
    float *mine = memory + thread * scratch_floats(a.dim, tile_rows, tile_keys);
    attend(a, begin, end, tile_keys, carve(mine, a.dim, tile_rows, tile_keys));
  });
}

}  // namespace flashattn::ladder
