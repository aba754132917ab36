// SPDX-License-Identifier: Apache-2.0
// The warpgroup that moves data: one thread fills shared memory, one thread drains the finished tiles.
#pragma once

#include "../ptx/mbarrier.cuh"
#include "../ptx/tma.cuh"
#include "config.cuh"
#include "schedule.cuh"

namespace flashattn::sm90 {

template <typename C>
__device__ inline void load_block(const TensorMap &map, typename C::Element *to, uint64_t *full, int block,
                                  int head, int batch) {
  ptx::mbarrier_arrive_expect(full, C::kKeyBytes);
#pragma unroll
  for (int chunk = 0; chunk < C::kChunks; ++chunk) {
    ptx::tma_load(to + chunk * C::kBlockN * 64, &map, full, chunk * 64, block * C::kBlockN, head, batch);
  }
}

// K runs one block ahead of V, in the order the consumers want them.
template <typename C>
__device__ inline void load_tiles(const FwdParams &p, SharedMemory<C> &s) {
  Ring<kTileSlots> q;
  Ring<C::kStages> k, v;
  int next = blockIdx.x;
  int idle = 0;         // slots in a row that found no work
  uint32_t loaded = 0;  // tiles so far
  for (;;) {
    ptx::mbarrier_wait_asleep(&s.tile_done[q.slot], q.phase ^ 1);
    Tile tile;
    if (C::kReference == Reference::kFixed && s.overflow[q.slot] != 0) {
      tile = s.tile[q.slot];
      tile.redo = s.overflow[q.slot];
      s.overflow[q.slot] = 0;
      idle = 0;
    } else if (next < p.total_tiles) {
      tile = tile_at<C::kBlockM>(p, next);
      idle = 0;
    } else {
      // A tile that is still being worked on may yet ask for a second run: end only when all are idle.
      tile.first_row = -1;
      tile.redo = ++idle == (C::kReference == Reference::kFixed ? kTileSlots : 1);
    }
    s.tile[q.slot] = tile;
    if (tile.first_row < 0) {
      ptx::mbarrier_arrive(&s.q_full[q.slot]);
      if (tile.redo) break;
      q.advance();
      continue;
    }

    if (C::kStoresDirectly) ptx::mbarrier_wait_asleep(&s.q_read, loaded++ % 2 ^ 1);
    ptx::mbarrier_arrive_expect(&s.q_full[q.slot], C::kQueryBytes);
#pragma unroll
    for (int chunk = 0; chunk < C::kChunks; ++chunk) {
      ptx::tma_load(s.q[q.slot % C::kQueryBuffers] + chunk * C::kBlockM * 64, &p.q, &s.q_full[q.slot],
                    chunk * 64, tile.first_row, tile.head, tile.batch);
    }
    q.advance();

    const int head = tile.head / p.group_size;
    const int end = key_range<C::kBlockN>(p, tile.first_row, C::kBlockM).end;
    int drawn = 0;
    for (int n = 0; n <= end; ++n) {
      // The next tile's number is asked for early enough to arrive unnoticed, late enough to be fair.
      if (n == end && tile.redo == 0) drawn = atomicAdd(p.tile_counter, 1);
      if (n < end) {
        ptx::mbarrier_wait_asleep(&s.k_empty[k.slot], k.phase ^ 1);
        load_block<C>(p.k, s.k[k.slot], &s.k_full[k.slot], n, head, tile.batch);
        k.advance();
      }
      if (n > 0) {
        ptx::mbarrier_wait_asleep(&s.v_empty[v.slot], v.phase ^ 1);
        load_block<C>(p.v, s.v[v.slot], &s.v_full[v.slot], n - 1, head, tile.batch);
        v.advance();
      }
    }
    if (tile.redo == 0) next = accept_draw(p, drawn);
  }
}

// Sends each consumer's rows of O out of the query buffer they were written to, then frees the buffer.
template <typename C>
__device__ inline void store_tiles(const FwdParams &p, SharedMemory<C> &s) {
  Ring<kTileSlots> q;
  for (;;) {
    ptx::mbarrier_wait_asleep(&s.q_full[q.slot], q.phase);
    const Tile tile = s.tile[q.slot];
    if (tile.first_row < 0) {
      if (tile.redo) break;
    } else {
#pragma unroll 1
      for (int w = 0; w < C::kConsumers; ++w) {
        ptx::mbarrier_wait_asleep(&s.o_full[q.slot][w], q.phase);
        const uint32_t overflow = *static_cast<volatile uint32_t *>(&s.overflow[q.slot]);
        const bool wanted = tile.redo != 0 ? tile.redo >> w & 1 : !(overflow >> w & 1);
        if (!wanted || tile.first_row + 64 * w >= p.n_q) continue;
#pragma unroll
        for (int chunk = 0; chunk < C::kChunks; ++chunk) {
          ptx::tma_store(&p.o, s.q[q.slot] + chunk * C::kBlockM * 64 + w * 64 * 64, chunk * 64,
                         tile.first_row + 64 * w, tile.head, tile.batch);
        }
      }
      ptx::tma_store_commit();
      ptx::tma_store_wait_read<0>();
    }
    ptx::mbarrier_arrive(&s.tile_done[q.slot]);
    q.advance();
  }
}

}  // namespace flashattn::sm90
