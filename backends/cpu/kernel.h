// SPDX-License-Identifier: Apache-2.0
// The list of CPU kernels, most specific first. "Supported?", "how much workspace?" and "run" all answer from
// one entry.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/cpu_features.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/shape.h"
#include "backends/cpu/tile.h"

namespace flashattn::cpu {

// How a kernel cuts a problem. Keys are cut at multiples of `keys` from key 0, which makes the bits of a row
// independent of the tile it lies in; for a batch-invariant shape `keys` depends on the shape only.
struct Blocking {
  int32_t rows;         // most packed rows per tile and KV head
  int32_t heads;        // most KV heads per tile
  int32_t keys;         // keys per block
  size_t scratch_size;  // bytes of scratch for one tile, aligned to 64
};

struct Kernel {
  const char *name;
  // nullptr when this machine can run it, else what is missing.
  const char *(*missing)(const CpuFeatures &features);
  // Right for everything and fast for nothing: FLASHATTN_FLAG_REQUIRE_FAST refuses it.
  bool generic;
  // max_rows >= 1 is how many packed rows a sequence has at most.
  Blocking (*blocking)(const Shape &shape, int64_t max_rows);
  // Computes the state of the tile's rows over tile.keys, from scratch: `state` is written, not read.
  void (*tile)(const Tile &tile, const Blocking &blocking, void *scratch, const State &state);
  StoreRow store_row;
};

int32_t kernel_count();
// 0 <= index < kernel_count().
const Kernel &kernel_at(int32_t index);

// Why no kernel takes the shape: "field is value; rule", cut to size - 1 bytes, or "" when every kernel does.
void refuse_shape(const Shape &shape, char *reason, size_t size);

inline constexpr int32_t kMaxHeadDim = 576;

}  // namespace flashattn::cpu
