// SPDX-License-Identifier: Apache-2.0
// The tile of each padded head dimension: what kernels are compiled with and the host launches.
//
//   head dim  rows  keys  warps x tiles  blocks per SM  why
//   64        128   64    4 x 2          2              Q stays in registers
//   128       128   64    4 x 2          2              O takes 128 registers; Q is read from shared memory
//   256       64    32    4 x 1          2              O takes 128 registers with one 16-row tile per warp
#pragma once

#include "backends/gpu/tile.h"

namespace flashattn::cuda {

template <int kDim, int kWarpsOf, int kWarpTilesOf, int kKeysOf, int kResidentOf>
struct Shape {
  static constexpr int kWarps = kWarpsOf;
  static constexpr int kWarpTiles = kWarpTilesOf;
  static constexpr int kKeys = kKeysOf;
  static constexpr int kResident = kResidentOf;
  static constexpr int kRows = kWarps * kWarpTiles * 16;
  // Q, two stages of K and V, and three numbers per row.
  static constexpr gpu::TileShape kTile = {kRows, kKeys, kWarps * 32,
                                           kRows *kDim * 2 + 4 * kKeys *kDim * 2 + kRows * 12};
};

template <int kDim>
struct ShapeOf;
template <>
struct ShapeOf<64> : Shape<64, 4, 2, 64, 2> {};
template <>
struct ShapeOf<128> : Shape<128, 4, 2, 64, 2> {};
template <>
struct ShapeOf<256> : Shape<256, 4, 1, 32, 2> {};

}  // namespace flashattn::cuda
