// SPDX-License-Identifier: Apache-2.0
// The two matrix products of a step, for the kM x 16 rows of one warp.
#pragma once

#include "backends/cuda/kernels/sm80/tile.cuh"

namespace flashattn::cuda {

// Scores and O as mma holds them: [16-row tile][8-column tile][element].
template <typename Tile>
using Scores = float[Tile::kM][Tile::kKeys / 8][4];
template <typename Tile>
using Output = float[Tile::kM][Tile::kDim / 8][4];
// Q's fragments of all of the head dimension, where they are kept.
template <typename Tile>
using QFragments = uint32_t[Tile::kKeepQ ? Tile::kDim / 16 : 1][Tile::kM][4];

// Where this lane's row of an A operand begins: rows 0-7 and 8-15 of chunk 0, then of chunk 1.
template <typename Tile>
__device__ uint32_t a_address(uint32_t base, int first_row) {
  const int lane = threadIdx.x % 32;
  return base + Tile::place(first_row + (lane & 15), lane >> 4);
}

template <typename Tile>
__device__ void load_q_fragments(uint32_t q, QFragments<Tile> &fragments) {
  if constexpr (Tile::kKeepQ) {
    const int warp = threadIdx.x / 32;
#pragma unroll
    for (int m = 0; m < Tile::kM; ++m) {
      const uint32_t address = a_address<Tile>(q, (warp * Tile::kM + m) * 16);
#pragma unroll
      for (int step = 0; step < Tile::kDim / 16; ++step) ldmatrix(fragments[step][m], address ^ (step * 32));
    }
  }
}

// S = Q K^T.
template <typename Tile>
__device__ void multiply_qk(uint32_t q, const QFragments<Tile> &kept, uint32_t k, Scores<Tile> &s) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
#pragma unroll
  for (int m = 0; m < Tile::kM; ++m) {
#pragma unroll
    for (int n = 0; n < Tile::kKeys / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) s[m][n][e] = 0.0F;
    }
  }
  uint32_t q_address[Tile::kM];
#pragma unroll
  for (int m = 0; m < Tile::kM; ++m) q_address[m] = a_address<Tile>(q, (warp * Tile::kM + m) * 16);
  // Keys 0-7 of chunks 0 and 1, then keys 8-15: the B operands of two 8-key tiles.
  const uint32_t k_address = k + Tile::place((lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
#pragma unroll
  for (int step = 0; step < Tile::kDim / 16; ++step) {
    uint32_t a[Tile::kM][4];
#pragma unroll
    for (int m = 0; m < Tile::kM; ++m) {
      if constexpr (Tile::kKeepQ) {
#pragma unroll
        for (int e = 0; e < 4; ++e) a[m][e] = kept[step][m][e];
      } else {
        ldmatrix(a[m], q_address[m] ^ (step * 32));
      }
    }
#pragma unroll
    for (int n = 0; n < Tile::kKeys / 16; ++n) {
      uint32_t b[4];
      ldmatrix(b, (k_address ^ (step * 32)) + n * 16 * Tile::kRowBytes);
#pragma unroll
      for (int m = 0; m < Tile::kM; ++m) {
        mma(s[m][2 * n], a[m], b[0], b[1], typename Tile::Type{});
        mma(s[m][2 * n + 1], a[m], b[2], b[3], typename Tile::Type{});
      }
    }
  }
}

// O += P V with P as softmax left it in the scores' place: two neighbouring 8-key tiles of C are one A
// operand.
template <typename Tile>
__device__ void multiply_pv(const Scores<Tile> &p, uint32_t v, Output<Tile> &o) {
  using T = typename Tile::Type;
  const int lane = threadIdx.x % 32;
  // Keys 0-7 and 8-15 of chunk 0, then of chunk 1, transposed on the way.
  const uint32_t v_address = v + Tile::place(lane & 15, lane >> 4);
#pragma unroll
  for (int step = 0; step < Tile::kKeys / 16; ++step) {
    uint32_t a[Tile::kM][4];
#pragma unroll
    for (int m = 0; m < Tile::kM; ++m) {
      a[m][0] = pack(p[m][2 * step][0], p[m][2 * step][1], T{});
      a[m][1] = pack(p[m][2 * step][2], p[m][2 * step][3], T{});
      a[m][2] = pack(p[m][2 * step + 1][0], p[m][2 * step + 1][1], T{});
      a[m][3] = pack(p[m][2 * step + 1][2], p[m][2 * step + 1][3], T{});
    }
#pragma unroll
    for (int n = 0; n < Tile::kDim / 16; ++n) {
      uint32_t b[4];
      ldmatrix_transposed(b, (v_address ^ (n * 32)) + step * 16 * Tile::kRowBytes);
#pragma unroll
      for (int m = 0; m < Tile::kM; ++m) {
        mma(o[m][2 * n], a[m], b[0], b[1], T{});
        mma(o[m][2 * n + 1], a[m], b[2], b[3], T{});
      }
    }
  }
}

}  // namespace flashattn::cuda
