// SPDX-License-Identifier: Apache-2.0
// Into how many splits the keys of a call are cut. Decided from what the host knows - sizes of problem and
// call, the device's width - and never from lengths in device memory.
#pragma once

#include <cstdint>

#include "backends/gpu/tile.h"
#include "flashattn.h"

namespace flashattn::gpu {

// What a plan fixes.
struct SplitRule {
  int32_t forced;         // problem.num_splits; 0 = choose
  int32_t max_splits;     // 1: calls are never split
  int64_t target_blocks;  // blocks that fill the device
  int64_t partial_rows;   // most rows x splits that any call of the plan needs room for; 0 = never split
};

// resident_blocks: how many blocks of the kernel the device runs at once.
SplitRule make_split_rule(const flashattn_problem_t &problem, const TileShape &tile, int64_t resident_blocks);

// Splits of a call: 1 .. max_splits. blocks: tiles of rows of the whole call. seqlen_kv: the call's bound.
int32_t choose_splits(const SplitRule &rule, int64_t blocks, int32_t seqlen_kv);

// Tiles of packed rows per sequence and KV head.
inline int64_t tiles_of(int64_t seqlen_q, int64_t group, int64_t rows) {
  return (seqlen_q * group + rows - 1) / rows;
}

}  // namespace flashattn::gpu
