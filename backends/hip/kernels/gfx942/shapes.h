// SPDX-License-Identifier: Apache-2.0
// The tile of each head dimension, for the kernels and for the host that launches them. A step moves 8192 elements of
// K and as many of V, 32 of each per thread.
#pragma once

#include "backends/gpu/tile.h"

namespace flashattn::hip {

template <int kDim>
struct ShapeOf {
  static constexpr int kWaves = 4;
  static constexpr int kRows = 32 * kWaves;  // packed query rows, 32 per wave
  static constexpr int kKeys = 8192 / kDim;
  static constexpr int kThreads = 64 * kWaves;
  static constexpr int kLdsBytes = 2 * 2 * kKeys * kDim;  // K and V, 2 bytes an element
  static constexpr gpu::TileShape kTile = {kRows, kKeys, kThreads, kLdsBytes};
};

}  // namespace flashattn::hip
