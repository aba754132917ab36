// SPDX-License-Identifier: Apache-2.0
// The shape of a block's work and its shared memory.
//
// Rows of Q, K and V lie in shared memory as kDim 16-bit elements in 16-byte chunks; chunk c of row r is
// stored at place c ^ (r % 8), so that the eight rows an ldmatrix phase reads lie in different banks.
#pragma once

#include "backends/cuda/kernels/common/score.cuh"
#include "backends/cuda/kernels/sm80/ptx.cuh"

namespace flashattn::cuda {

template <typename T, int kHeadDim, int kBlockWarps, int kWarpTiles, int kStepKeys, int kBlocksPerSm>
struct Tile {
  using Type = T;
  static constexpr int kWarps = kBlockWarps;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kM = kWarpTiles;  // 16-row tiles per warp
  static constexpr int kRows = kWarps * kM * 16;
  static constexpr int kKeys = kStepKeys;   // per step
  static constexpr int kDim = kHeadDim;     // padded
  static constexpr int kChunks = kDim / 8;  // 16-byte chunks of a row
  static constexpr int kRowBytes = kDim * 2;
  static constexpr int kResident = kBlocksPerSm;
  static constexpr bool kKeepQ = kDim <= 64;  // Q's fragments stay in registers

  static constexpr int kQBytes = kRows * kRowBytes;
  static constexpr int kStageBytes = kKeys * kRowBytes;  // of K, and of V
  static constexpr int kStages = 2;

  struct RowInfo {
    int32_t begin[kRows], end[kRows];  // keys a row sees
    int32_t row[kRows];                // packed row number in the sequence; past the end, the last one's
  };
  static constexpr int kSharedBytes = kQBytes + 2 * kStages * kStageBytes + static_cast<int>(sizeof(RowInfo));

  static __device__ uint32_t place(int row, int chunk) {
    return static_cast<uint32_t>(row * kRowBytes + ((chunk ^ (row & 7)) << 4));
  }
};

}  // namespace flashattn::cuda
