// SPDX-License-Identifier: Apache-2.0
// Which piece of a call a block computes. Blocks are counted in one dimension, because the other dimensions
// of a grid end at 65535.
//
// Order: sections of (sequence, KV head) pairs whose K and V fit the cache together; within a section the
// later tiles of rows first, since a causal mask gives them more keys and long work should not start last;
// then the pairs; splits of one tile side by side.
#pragma once

#include <cstdint>

#include "backends/gpu/portable.h"

namespace flashattn::gpu {

struct Piece {
  int32_t batch;
  int32_t head_kv;
  int32_t tile;  // of packed rows
  int32_t split;
};

// pairs: sequences times KV heads; q_tiles: tiles of rows per pair. Index is int32_t where blocks stay below
// 2^31: on a GPU a division of 64-bit numbers is some hundred instructions.
template <typename Index>
FLASHATTN_HOST_DEVICE Piece piece_at(Index block, Index pairs, int32_t heads_kv, int32_t q_tiles,
                                     int32_t splits, Index section_pairs) {
  const Index tile_index = splits == 1 ? block : block / splits;
  const auto split = static_cast<int32_t>(block - tile_index * splits);
  Index within = tile_index;
  Index first_pair = 0;
  Index here = pairs;
  if (section_pairs < pairs) {
    const Index section = tile_index / (section_pairs * q_tiles);
    within = tile_index - section * section_pairs * q_tiles;
    first_pair = section * section_pairs;
    here = pairs - first_pair < section_pairs ? pairs - first_pair : section_pairs;
  }
  const Index rank = within / here;
  const Index pair = first_pair + within - rank * here;
  const Index batch = pair / heads_kv;
  return {static_cast<int32_t>(batch), static_cast<int32_t>(pair - batch * heads_kv),
          q_tiles - 1 - static_cast<int32_t>(rank), split};
}

}  // namespace flashattn::gpu
