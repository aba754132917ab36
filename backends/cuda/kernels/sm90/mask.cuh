// SPDX-License-Identifier: Apache-2.0
// Visibility of keys, applied to the scores of one block.
#pragma once

#include <cmath>

#include "params.h"

namespace flashattn::sm90 {

// Keys [0, count) are visible to query `row`.
__device__ inline int visible_keys(const FwdParams &p, int row) {
  return p.causal ? min(p.n_k, row + p.diagonal + 1) : p.n_k;
}

// Scores of keys at or past `limit` become -inf. `limit` counts from the block's first key, one per row of
// the thread; see wgmma.cuh for the layout. `lane_column` = 2 * (lane % 4).
template <int kCount>
__device__ inline void mask_scores(float *s, const int (&limit)[2], int lane_column) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int here = limit[r] - lane_column;
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (8 * j + e >= here) s[4 * j + 2 * r + e] = -INFINITY;
      }
    }
  }
}

}  // namespace flashattn::sm90
