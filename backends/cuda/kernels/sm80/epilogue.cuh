// SPDX-License-Identifier: Apache-2.0
// From a warp's accumulators to O and LSE, or to the partial results of a split.
#pragma once

#include "backends/cuda/kernels/common/finish.cuh"
#include "backends/cuda/kernels/sm80/load.cuh"
#include "backends/cuda/kernels/sm80/mask.cuh"
#include "backends/cuda/kernels/sm80/softmax.cuh"
#include "backends/gpu/schedule.h"

namespace flashattn::cuda {

constexpr float kLn2 = 0.693147180559945309F;

// Stores f32 values of one row; two neighbouring columns per lane.
template <typename Tile>
__device__ void store_row_f32(float *row, int32_t dim_v, const Output<Tile> &o, int m, int half,
                              float scale) {
  const int first = (threadIdx.x % 4) * 2;
#pragma unroll
  for (int n = 0; n < Tile::kDim / 8; ++n) {
    const int column = n * 8 + first;
    const float low = o[m][n][half * 2] * scale;
    const float high = o[m][n][half * 2 + 1] * scale;
    if (column + 1 < dim_v && dim_v % 2 == 0) {
      *reinterpret_cast<float2 *>(row + column) = make_float2(low, high);
    } else {
      if (column < dim_v) row[column] = low;
      if (column + 1 < dim_v) row[column + 1] = high;
    }
  }
}

// Puts one row of 16-bit values into the warp's own rows of shared memory, whose Q nobody needs any more.
template <typename Tile, typename T>
__device__ void stage_row(uint8_t *staging, int row, const Output<Tile> &o, int m, int half, float scale) {
#pragma unroll
  for (int n = 0; n < Tile::kDim / 8; ++n) {
    const uint32_t value = pack(o[m][n][half * 2] * scale, o[m][n][half * 2 + 1] * scale, T{});
    *reinterpret_cast<uint32_t *>(staging + Tile::place(row, n) + (threadIdx.x % 4) * 4) = value;
  }
}

// Writes a warp's staged rows in 16-byte chunks, a row's chunks side by side.
template <typename Tile>
__device__ void store_staged(const ForwardArgs &args, const Sequence &s, int32_t head_kv, int32_t first_row,
                             int32_t rows, const uint8_t *staging) {
  const int lane = threadIdx.x % 32;
  const int first = static_cast<int>(threadIdx.x) / 32 * Tile::kM * 16;
  auto *data = static_cast<uint16_t *>(args.o.data);
  for (int at = lane; at < Tile::kM * 16 * Tile::kChunks; at += 32) {
    const int r = first + at / Tile::kChunks;
    const int chunk = at % Tile::kChunks;
    const int32_t row = first_row + r;
    if (row >= rows || chunk * 8 >= args.dim_v) continue;
    const PackedRow packed = packed_row(args, head_kv, row);
    uint16_t *to = data + q_offset(args, args.o, s, packed.i, packed.head) + chunk * 8;
    const uint8_t *from = staging + Tile::place(r, chunk);
    if (chunk * 8 + 8 <= args.dim_v) {
      *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from);
    } else {
      for (int c = 0; c < args.dim_v - chunk * 8; ++c) to[c] = reinterpret_cast<const uint16_t *>(from)[c];
    }
  }
}

// natural: takes a maximum to the natural score it stands for.
template <typename Tile>
__device__ void store_tile(const ForwardArgs &args, const Sequence &s, const gpu::Piece &piece,
                           int32_t first_row, int32_t rows, float natural, const Softmax<Tile> &softmax,
                           const Output<Tile> &o, uint8_t *staging) {
  const bool partial = args.splits > 1;
  const bool direct = partial || args.dtype_o == FLASHATTN_DTYPE_F32;
#pragma unroll
  for (int m = 0; m < Tile::kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = lane_row<Tile>(m, half);
      const int32_t row = min(first_row + r, rows - 1);
      const auto [i, head] = packed_row(args, piece.head_kv, row);
      const RowResult result =
          finish_tile_row(args, s, head, softmax.maximum[m][half] * natural, softmax.sum[m][half]);
      const bool stored = first_row + r < rows;
      if (direct) {
        const int64_t at = partial ? piece.split * args.partial_rows + partial_row(args, s, i, head) : 0;
        float *to = partial ? args.partial_o + at * args.dim_v
                            : static_cast<float *>(args.o.data) + q_offset(args, args.o, s, i, head);
        if (stored) store_row_f32<Tile>(to, args.dim_v, o, m, half, result.scale);
        if (stored && partial && threadIdx.x % 4 == 0) args.partial_lse[at] = result.lse;
      } else if (args.dtype_o == FLASHATTN_DTYPE_F16) {
        stage_row<Tile, __half>(staging, r, o, m, half, result.scale);
      } else {
        stage_row<Tile, __nv_bfloat16>(staging, r, o, m, half, result.scale);
      }
      if (stored && !partial && threadIdx.x % 4 == 0) store_lse(args, s, i, head, result.lse);
    }
  }
  if (direct) return;
  __syncwarp();
  store_staged<Tile>(args, s, piece.head_kv, first_row, rows, staging);
}

}  // namespace flashattn::cuda
