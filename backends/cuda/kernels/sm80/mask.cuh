// SPDX-License-Identifier: Apache-2.0
// What happens to scores between the two products: modification and mask.
#pragma once

#include "backends/cuda/kernels/sm80/load.cuh"
#include "backends/cuda/kernels/sm80/products.cuh"
#include "backends/gpu/ranges.h"

namespace flashattn::cuda {

// This lane's rows of a warp: lane / 4 and lane / 4 + 8 of each 16-row tile.
template <typename Tile>
__device__ int lane_row(int m, int half) {
  return (static_cast<int>(threadIdx.x) / 32 * Tile::kM + m) * 16 + half * 8 +
         (static_cast<int>(threadIdx.x) % 32) / 4;
}
// Key of element e of 8-key tile n, within the step.
__device__ inline int lane_key(int n, int e) {
  return n * 8 + (static_cast<int>(threadIdx.x) % 4) * 2 + (e & 1);
}

template <typename Tile>
__device__ void fill_row_info(const ForwardArgs &args, const Sequence &s, int32_t first_row, int32_t rows,
                              typename Tile::RowInfo &info) {
  for (int r = threadIdx.x; r < Tile::kRows; r += Tile::kThreads) {
    const int32_t row = min(first_row + r, rows - 1);
    const gpu::KeyRange seen =
        gpu::visible_keys(packed_row(args, 0, row).i, s.diagonal, args.window_left, args.window_right, s.n_k);
    info.begin[r] = seen.begin;
    info.end[r] = seen.end;
    info.row[r] = row;
  }
}

// Keys a row does not see score -inf.
template <typename Tile>
__device__ void mask_scores(const typename Tile::RowInfo &info, int32_t first_key, Scores<Tile> &scores) {
#pragma unroll
  for (int m = 0; m < Tile::kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = lane_row<Tile>(m, half);
      const int32_t begin = info.begin[r] - first_key;
      const int32_t end = info.end[r] - first_key;
#pragma unroll
      for (int n = 0; n < Tile::kKeys / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int j = lane_key(n, e);
          float &score = scores[m][n][half * 2 + e];
          score = j >= begin && j < end ? score : minus_infinity();
        }
      }
    }
  }
}

// From products to natural scores: softcap, ALiBi, bias. Keys past the sequence are left for the mask.
template <typename Tile>
__device__ void modify_scores(const ForwardArgs &args, const Sequence &s, int32_t head_kv,
                              const typename Tile::RowInfo &info, int32_t first_key, Scores<Tile> &scores) {
#pragma unroll
  for (int m = 0; m < Tile::kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const PackedRow packed = packed_row(args, head_kv, info.row[lane_row<Tile>(m, half)]);
      const RowModifier modifier = row_modifier(args, s, packed.i, packed.head);
#pragma unroll
      for (int n = 0; n < Tile::kKeys / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int32_t j = first_key + lane_key(n, e);
          float &score = scores[m][n][half * 2 + e];
          if (j < s.n_k) score = modified_score(args, modifier, score, j);
        }
      }
    }
  }
}

}  // namespace flashattn::cuda
