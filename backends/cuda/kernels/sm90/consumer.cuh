// SPDX-License-Identifier: Apache-2.0
// The warpgroups that compute: each owns 64 query rows of the tile from the first product to the last store.
#pragma once

#include "../ptx/mbarrier.cuh"
#include "../ptx/sync.cuh"
#include "../ptx/wgmma.cuh"
#include "config.cuh"
#include "epilogue.cuh"
#include "mask.cuh"
#include "schedule.cuh"
#include "softmax.cuh"

namespace flashattn::sm90 {

// Q and K: rows of 64 columns, K-major. V: the same rows, read as columns.
using KMajor = ptx::Matrix<16, 1024>;
template <typename C>
using ValueMajor = ptx::Matrix<C::kBlockN * 128, 1024>;

// S = Q K^T of 64 rows and the first kKeys keys of a block, by k16 steps along the head dimension.
template <typename C, int kKeys>
__device__ inline void multiply_qk(float *scores, KMajor q, KMajor k) {
#pragma unroll
  for (int step = 0; step < C::kHeadDim / 16; ++step) {
    const int chunk = step / 4, byte = step % 4 * 32;
    const uint64_t a = q.at(chunk * C::kBlockM * 128 + byte).descriptor();
    const uint64_t b = k.at(chunk * C::kBlockN * 128 + byte).descriptor();
    if (step == 0) {
      ptx::Wgmma<typename C::Element, kKeys>::ss_first(scores, a, b);
    } else {
      ptx::Wgmma<typename C::Element, kKeys>::ss(scores, a, b);
    }
  }
}

// O += P V over the first kKeys keys of a block, by k16 steps along the keys.
template <typename C, int kKeys>
__device__ inline void multiply_pv(float *out, const uint32_t *p, ValueMajor<C> v) {
#pragma unroll
  for (int step = 0; step < kKeys / 16; ++step) {
    ptx::Wgmma<typename C::Element, C::kHeadDim>::rs(out, p + 4 * step, v.at(step * 16 * 128).descriptor());
  }
}

// Tells the compiler that all lanes hold the same value: a wgmma must not sit on a path it takes for
// divergent, and descriptors belong in uniform registers.
template <typename T>
__device__ inline T uniform(T x) {
  return __shfl_sync(0xffffffffu, x, 0);
}

// Blocks of K and V are numbered through the life of the kernel: block i sits in slot i % kStages, and its
// "full" phase has parity i / kStages % 2. Consumers count alike, whatever they skip. One lane of each warp
// signals for it.
template <typename C>
struct Pipeline {
  SharedMemory<C> &s;
  bool signals;

  __device__ static uint32_t slot(uint32_t block) { return block % C::kStages; }
  __device__ static uint32_t parity(uint32_t block) { return block / C::kStages % 2; }
  __device__ static uint32_t bytes(uint32_t block) { return slot(block) * C::kKeyBytes; }
  // A barrier takes about 30 cycles to answer. With many consumers, where every instruction slot counts, it
  // is asked ahead of the need: `seen` is look_k's or look_v's answer. Only a block whose slot this consumer
  // has used before may be looked at, else the parity is ambiguous; the next block's always has been.
  __device__ uint32_t look_k(uint32_t block) const {
    if (!C::kLooksAhead) return 0;
    return ptx::mbarrier_test(ptx::smem_address(&s.k_full[slot(block)]), parity(block));
  }
  __device__ uint32_t look_v(uint32_t block) const {
    if (!C::kLooksAhead) return 0;
    return ptx::mbarrier_test(ptx::smem_address(&s.v_full[slot(block)]), parity(block));
  }
  __device__ void wait_k(uint32_t block, uint32_t seen = 0) const {
    if (!seen) ptx::mbarrier_wait(&s.k_full[slot(block)], parity(block));
  }
  __device__ void wait_v(uint32_t block, uint32_t seen = 0) const {
    if (!seen) ptx::mbarrier_wait(&s.v_full[slot(block)], parity(block));
  }
  __device__ void release_k(uint32_t block) const {
    if (signals) ptx::mbarrier_arrive(&s.k_empty[slot(block)]);
  }
  __device__ void release_v(uint32_t block) const {
    if (signals) ptx::mbarrier_arrive(&s.v_empty[slot(block)]);
  }
  __device__ void release_q() const {
    if (C::kStoresDirectly && signals) ptx::mbarrier_arrive(&s.q_read);
  }
  // Blocks other consumers of the tile need and this one does not: hand them back unread.
  __device__ void pass_over(uint32_t from, uint32_t to) const {
#pragma unroll 1
    for (uint32_t i = from; i < to; ++i) {
      wait_k(i);
      release_k(i);
      wait_v(i);
      release_v(i);
    }
  }
};

// A tile as one consumer sees it.
template <typename C>
struct Work {
  Tile tile;
  int first_row;   // of this consumer's 64
  int blocks;      // of the whole tile
  KeyRange range;  // of this consumer's rows

  // Waits until slot `q` holds a note and the queries are there.
  __device__ Work(const FwdParams &p, SharedMemory<C> &s, Ring<kTileSlots> q, int w) {
    ptx::mbarrier_wait(&s.q_full[q.slot], q.phase);
    const Tile &t = s.tile[q.slot];
    tile = {uniform(t.first_row), uniform(t.head), uniform(t.batch), uniform(t.redo)};
    first_row = tile.first_row + 64 * w;
    blocks = key_range<C::kBlockN>(p, tile.first_row, C::kBlockM).end;
    range = key_range<C::kBlockN>(p, first_row, 64);
    if (left_alone(w)) range.end = 0;
  }
  __device__ bool real() const { return tile.first_row >= 0; }
  // A second run is for those who asked.
  __device__ bool left_alone(int w) const { return tile.redo != 0 && !(tile.redo >> w & 1); }
};

// What a consumer carries from product to product.
template <typename C>
struct Registers {
  float scores[C::kBlockN / 2];
  uint32_t probabilities[C::kBlockN / 4];
  float out[C::kHeadDim / 2];
  Rows rows;
};

template <typename C, int kKeys>
__device__ inline void start_qk(const Pipeline<C> &pipe, uint32_t block, KMajor q, Registers<C> &r) {
  ptx::wgmma_fence();
  multiply_qk<C, kKeys>(r.scores, q, KMajor(ptx::smem_address(pipe.s.k)).at(pipe.bytes(block)));
  ptx::wgmma_commit();
}

template <typename C, int kKeys>
__device__ inline void start_pv(const Pipeline<C> &pipe, uint32_t block, Registers<C> &r) {
  ptx::wgmma_pin(r.out);
  ptx::wgmma_fence();
  multiply_pv<C, kKeys>(r.out, r.probabilities,
                        ValueMajor<C>(ptx::smem_address(pipe.s.v)).at(pipe.bytes(block)));
  ptx::wgmma_commit();
}

template <typename C>
__device__ inline void finish_pv(Registers<C> &r) {
  ptx::wgmma_wait<0>();
  ptx::wgmma_pin(r.out);
}

// Where a thread's two rows stand for the mask (wgmma.cuh has the layout).
struct MaskPlace {
  int row;
  int lane_column;
};

// The scores of block n become probabilities; P V of the block before is in flight and has ended on return.
template <typename C, Reference kReference, int kKeys>
__device__ inline void soften(const FwdParams &p, MaskPlace place, int n, bool masked, bool first,
                              Registers<C> &r) {
  constexpr int kCount = kKeys / 2, kOutCount = C::kHeadDim / 2;
  const float c = p.scale_log2;
  float factor[2];
  if (masked) {
    const int limit[2] = {visible_keys(p, place.row) - n * C::kBlockN,
                          visible_keys(p, place.row + 8) - n * C::kBlockN};
    mask_scores<kCount>(r.scores, limit, place.lane_column);
  }
  if (kReference == Reference::kRunningMax || first) {
    float top[2];
    if (outgrown<kCount>(r.scores, r.rows, c, top)) {
      if (!first) finish_pv(r);
      follow_maximum(r.rows, c, top, factor);
      if (!first) scale_rows<kOutCount>(r.out, factor);
    }
    if (r.rows.subtract_first) subtract_reference<kCount>(r.scores, r.rows);
  }
  exponentiate<kCount>(r.scores, r.rows, c);
  if (kReference == Reference::kRunningMax) {
    fence_exponentials(r.rows);
  } else if (first) {
    fix_reference(r.rows);
  } else if (sum_outgrown(r.rows)) {
    finish_pv(r);
    follow_sum(r.rows, factor);
    scale_rows<kCount>(r.scores, factor);
    scale_rows<kOutCount>(r.out, factor);
  }
  if (!first) {
    finish_pv(r);
    ptx::wgmma_pin(r.scores);
  }
}

// One tile: its rows against key blocks 0 .. range.end - 1, which are blocks `block` and on of the pipeline;
// leaves O unnormalised. QK of block n is issued before PV of block n - 1, and the softmax of block n runs
// while that PV does.
template <typename C, Reference kReference>
__device__ inline void attend(const FwdParams &p, const Pipeline<C> &pipe, uint32_t block, KMajor q,
                              const Work<C> &work, Registers<C> &r) {
  constexpr int kN = C::kBlockN;
  // Of a last block that only reaches into its first half, the diagonal's above all, only that half is
  // computed.
  constexpr int kHalf = kN == 128 ? 64 : kN;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const MaskPlace place = {work.first_row + warp * 16 + lane / 4, lane % 4 * 2};
  const KeyRange range = work.range;
  const bool half_last = kHalf < kN && range.end > 1 && range.tail <= kHalf;
  const uint32_t last = block + range.end - 1;

  pipe.wait_k(block);
  start_qk<C, kN>(pipe, block, q, r);
#pragma unroll
  for (int i = 0; i < C::kHeadDim / 2; ++i) r.out[i] = 0.0f;
  r.rows.reset();
  ptx::wgmma_wait<0>();
  ptx::wgmma_pin(r.scores);
  pipe.release_k(block);
  if (range.end == 1) pipe.release_q();
  uint32_t seen_k = pipe.look_k(block + 1);
  soften<C, kReference, kN>(p, place, 0, range.all_visible == 0, true, r);
  pack_probabilities<kN / 2, typename C::Element>(r.scores, r.probabilities);

  const int whole = range.end - static_cast<int>(half_last);
#pragma unroll 1
  for (int n = 1; n < whole; ++n) {
    pipe.wait_k(block + n, seen_k);
    const uint32_t seen_v = pipe.look_v(block + n - 1);
    start_qk<C, kN>(pipe, block + n, q, r);
    pipe.wait_v(block + n - 1, seen_v);
    start_pv<C, kN>(pipe, block + n - 1, r);
    ptx::wgmma_wait<1>();
    ptx::wgmma_pin(r.scores);
    pipe.release_k(block + n);
    if (n + 1 == range.end) pipe.release_q();
    seen_k = pipe.look_k(block + n + 1);
    soften<C, kReference, kN>(p, place, n, n >= range.all_visible, false, r);
    pipe.release_v(block + n - 1);
    pack_probabilities<kN / 2, typename C::Element>(r.scores, r.probabilities);
  }
  if constexpr (kHalf < kN) {
    if (half_last) {
      pipe.wait_k(last, seen_k);
      start_qk<C, kHalf>(pipe, last, q, r);
      pipe.wait_v(last - 1);
      start_pv<C, kN>(pipe, last - 1, r);
      ptx::wgmma_wait<1>();
      ptx::wgmma_pin(r.scores);
      pipe.release_k(last);
      pipe.release_q();
      soften<C, kReference, kHalf>(p, place, range.end - 1, true, false, r);
      pipe.release_v(last - 1);
      pack_probabilities<kHalf / 2, typename C::Element>(r.scores, r.probabilities);
      pipe.wait_v(last);
      start_pv<C, kHalf>(pipe, last, r);
      finish_pv(r);
      pipe.release_v(last);
      return;
    }
  }
  pipe.wait_v(last);
  start_pv<C, kN>(pipe, last, r);
  finish_pv(r);
  pipe.release_v(last);
}

template <typename C>
__device__ inline void consume_tiles(const FwdParams &p, SharedMemory<C> &s, int w) {
  const Pipeline<C> pipe{s, threadIdx.x % 32 == 0};
  Ring<kTileSlots> q;
  uint32_t block = 0;  // number of the tile's first block
  for (;;) {
    // One place fetches work, and every loop below runs over it: then the assembler sees that control flow is
    // the same for the whole warp, and keeps addresses in uniform registers.
    const Work<C> work(p, s, q, w);
    if (!work.real()) {
      if (work.tile.redo) break;
      if (C::kStoresDirectly && pipe.signals) ptx::mbarrier_arrive(&s.tile_done[q.slot]);
      q.advance();
      continue;
    }
    block = uniform(block);
    typename C::Element *own_rows = s.q[q.slot % C::kQueryBuffers] + w * 64 * 64;
    if (work.range.end > 0) {
      Registers<C> r;
      const KMajor queries(uniform(ptx::smem_address(own_rows)));
      if (C::kReference == Reference::kRunningMax || work.tile.redo != 0) {
        attend<C, Reference::kRunningMax>(p, pipe, block, queries, work, r);
      } else {
        attend<C, Reference::kFixed>(p, pipe, block, queries, work, r);
        if (out_of_range(r.out, r.rows) && pipe.signals) atomicOr(&s.overflow[q.slot], 1u << w);
      }
      finish_rows<C>(p, work.tile, work.first_row, r.out, r.rows, own_rows);
    } else {
      pipe.release_q();
      if (!work.left_alone(w)) finish_empty_rows<C>(p, work.tile, work.first_row, own_rows);
    }
    if (C::kStoresDirectly) {
      __syncwarp();
      if (pipe.signals) ptx::mbarrier_arrive(&s.tile_done[q.slot]);
    } else {
      // The rows wait in shared memory: tell the warp that stores them.
      ptx::fence_async_proxy();
      __syncwarp();
      if (pipe.signals) ptx::mbarrier_arrive(&s.o_full[q.slot][w]);
    }
    pipe.pass_over(block + work.range.end, block + work.blocks);
    block += work.blocks;
    q.advance();
  }
}

}  // namespace flashattn::sm90
