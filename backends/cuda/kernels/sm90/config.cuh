// SPDX-License-Identifier: Apache-2.0
// Shapes of one kernel and the shared memory that follows from them.
#pragma once

#include <cstdint>

namespace flashattn::sm90 {

enum class Reference : int32_t {
  kRunningMax,  // the row maximum is found in every block
  kFixed,       // the first block's maximum stays the reference; see softmax.cuh
};

template <typename ElementT, int kHeadDimT, int kBlockMT, int kBlockNT, int kStagesT, int kQueryBuffersT,
          Reference kReferenceT>
struct Config {
  using Element = ElementT;
  static constexpr int kHeadDim = kHeadDimT;
  static constexpr int kBlockM = kBlockMT;  // query rows of a tile: 64 for each consumer warpgroup
  static constexpr int kBlockN = kBlockNT;  // keys of a block
  static constexpr int kStages = kStagesT;  // K and V blocks in flight
  // Tiles whose queries fit in shared memory. Two: the next tile's arrive early, and O leaves through the
  // buffer of its own queries by the copy engine. One: the next tile's arrive after the last QK, and O leaves
  // from registers.
  static constexpr int kQueryBuffers = kQueryBuffersT;
  static constexpr bool kStoresDirectly = kQueryBuffers == 1;
  static constexpr Reference kReference = kReferenceT;

  static constexpr int kConsumers = kBlockM / 64;  // warpgroups
  static constexpr int kThreads = 128 * (kConsumers + 1);
  static constexpr bool kLooksAhead = kConsumers > 2;  // measured: +1.2 % with four, -1 % with two
  static constexpr int kChunks = kHeadDim / 64;        // 64 columns = one 128-byte swizzle span
  static constexpr int kQueryBytes = kBlockM * kHeadDim * 2;
  static constexpr int kKeyBytes = kBlockN * kHeadDim * 2;

  // 64K registers a block, handed out at launch in equal parts that are multiples of 8, then moved by
  // setmaxnreg.
  static constexpr int kProducerRegisters = kConsumers == 2 ? 24 : 32;
  static constexpr int kConsumerRegisters = kConsumers == 1   ? 240
                                            : kConsumers == 2 ? 240
                                            : kConsumers == 3 ? 160
                                                              : 112;
  static constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
  static_assert(128 * kProducerRegisters + 128 * kConsumers * kConsumerRegisters <=
                kThreads * kLaunchRegisters);
  static_assert(kBlockM % 64 == 0 && kBlockN % 16 == 0 && kHeadDim % 64 == 0);
};

// What producer and consumers know of a tile; there are always two such notes.
constexpr int kTileSlots = 2;

struct Tile {
  int32_t first_row;  // negative: no tile here, and with redo = 1 none to come
  int32_t head;
  int32_t batch;
  uint32_t redo;  // nonzero: second run with the running maximum, of the consumers whose bit is set
};

// Tiles are 128-byte rows of 64 columns, 128-byte swizzle, one block of rows per 64-column chunk.
template <typename C>
struct SharedMemory {
  alignas(1024) typename C::Element q[C::kQueryBuffers][C::kBlockM * C::kHeadDim];  // and O on its way out
  alignas(1024) typename C::Element k[C::kStages][C::kBlockN * C::kHeadDim];
  alignas(1024) typename C::Element v[C::kStages][C::kBlockN * C::kHeadDim];
  uint64_t k_full[C::kStages], k_empty[C::kStages], v_full[C::kStages], v_empty[C::kStages];
  uint64_t q_full[kTileSlots];  // the note is written and the queries are there
  uint64_t q_read;              // one buffer only: every consumer has read the queries
  uint64_t o_full[kTileSlots]
                 [C::kConsumers];  // two buffers only: a consumer's rows of O wait in the query buffer
  uint64_t tile_done[kTileSlots];  // O has left, the note is free
  Tile tile[kTileSlots];
  uint32_t overflow[kTileSlots];  // bit w: consumer w's rows left the range of the fixed reference
};

// Position in a ring of buffers and the parity of the phase that fills it.
template <int kDepth>
struct Ring {
  int slot = 0;
  uint32_t phase = 0;
  __device__ void advance() {
    if (++slot == kDepth) {
      slot = 0;
      phase ^= 1;
    }
  }
};

}  // namespace flashattn::sm90
