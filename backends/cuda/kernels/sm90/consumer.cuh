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

// Tells the compiler that all lanes hold the same value: a wgmma must not sit on a path it takes for divergent, and
// descriptors belong in uniform registers.
template <typename T>
__device__ inline T uniform(T x) {
  return __shfl_sync(0xffffffffu, x, 0);
}

// Blocks of K and V are numbered through the life of the kernel: block i sits in slot i % kStages, and its "full" phase
// has parity i / kStages % 2. Consumers count alike, whatever they skip. One lane of each warp signals for it.
template <typename C>
struct Pipeline {
  SharedMemory<C> &s;
  bool signals;

  __device__ static uint32_t slot(uint32_t block) { return block % C::kStages; }
  __device__ static uint32_t parity(uint32_t block) { return block / C::kStages % 2; }
  __device__ static uint32_t bytes(uint32_t block) { return slot(block) * C::kKeyBytes; }
  __device__ void wait_k(uint32_t block) const { ptx::mbarrier_wait(&s.k_full[slot(block)], parity(block)); }
  __device__ void wait_v(uint32_t block) const { ptx::mbarrier_wait(&s.v_full[slot(block)], parity(block)); }
  __device__ void release_k(uint32_t block) const {
    if (signals) ptx::mbarrier_arrive(&s.k_empty[slot(block)]);
  }
  __device__ void release_v(uint32_t block) const {
    if (signals) ptx::mbarrier_arrive(&s.v_empty[slot(block)]);
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

  // Waits until buffer `q` holds a tile and its queries.
  __device__ Work(const FwdParams &p, SharedMemory<C> &s, Ring<C::kQueryStages> q, int w) {
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

template <typename C>
__device__ inline void start_qk(const Pipeline<C> &pipe, uint32_t block, KMajor q, Registers<C> &r) {
  pipe.wait_k(block);
  ptx::wgmma_fence();
  multiply_qk<C, C::kBlockN>(r.scores, q, KMajor(ptx::smem_address(pipe.s.k)).at(pipe.bytes(block)));
  ptx::wgmma_commit();
}

template <typename C, int kKeys>
__device__ inline void start_pv(const Pipeline<C> &pipe, uint32_t block, Registers<C> &r) {
  pipe.wait_v(block);
  ptx::wgmma_pin(r.out);
  ptx::wgmma_fence();
  multiply_pv<C, kKeys>(r.out, r.probabilities, ValueMajor<C>(ptx::smem_address(pipe.s.v)).at(pipe.bytes(block)));
  ptx::wgmma_commit();
}

// One tile: its rows against key blocks 0 .. range.end - 1, which are blocks `block` and on of the pipeline; leaves O
// unnormalised. QK of block n is issued before PV of block n - 1, and the softmax of block n runs while that PV does.
// On entry QK of block 0 is in flight; on return PV of
// the last block is still to be issued.
template <typename C, Reference kReference>
__device__ inline void attend(const FwdParams &p, const Pipeline<C> &pipe, uint32_t block, KMajor q,
                              const Work<C> &work, Registers<C> &r) {
  constexpr int kCount = C::kBlockN / 2, kOutCount = C::kHeadDim / 2;
  const int row = work.first_row + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
  const int lane_column = threadIdx.x % 4 * 2;
  const float c = p.scale_log2;
  const KeyRange range = work.range;

  const auto mask = [&](int n) {
    const int limit[2] = {visible_keys(p, row) - n * C::kBlockN, visible_keys(p, row + 8) - n * C::kBlockN};
    mask_scores<kCount>(r.scores, limit, lane_column);
  };
  const auto finish_pv = [&] {
    ptx::wgmma_wait<0>();
    ptx::wgmma_pin(r.out);
  };
  const auto track_maximum = [&] {
    float top[2], factor[2];
    if (outgrown<kCount>(r.scores, r.rows, c, top)) {
      finish_pv();
      follow_maximum(r.rows, c, top, factor);
      scale_rows<kOutCount>(r.out, factor);
    }
    if (r.rows.subtract_first) subtract_reference<kCount>(r.scores, r.rows);
  };

  ptx::wgmma_wait<0>();
  ptx::wgmma_pin(r.scores);
#pragma unroll
  for (int i = 0; i < kOutCount; ++i) r.out[i] = 0.0f;
  r.rows.reset();
  pipe.release_k(block);
  if (range.all_visible == 0) mask(0);
  track_maximum();
  exponentiate<kCount>(r.scores, r.rows, c);
  if (kReference == Reference::kFixed) fix_reference(r.rows);
  pack_probabilities<kCount, typename C::Element>(r.scores, r.probabilities);

#pragma unroll 1
  for (int n = 1; n < range.end; ++n) {
    const uint32_t i = uniform(block + n);
    start_qk(pipe, i, q, r);
    start_pv<C, C::kBlockN>(pipe, i - 1, r);
    ptx::wgmma_wait<1>();
    ptx::wgmma_pin(r.scores);
    pipe.release_k(i);
    if (n >= range.all_visible) mask(n);
    if (kReference == Reference::kRunningMax) track_maximum();
    exponentiate<kCount>(r.scores, r.rows, c);
    if (kReference == Reference::kFixed) {
      if (sum_outgrown(r.rows)) {
        float factor[2];
        finish_pv();
        follow_sum(r.rows, factor);
        scale_rows<kCount>(r.scores, factor);
        scale_rows<kOutCount>(r.out, factor);
      }
    } else {
      fence_exponentials(r.rows);
    }
    finish_pv();
    ptx::wgmma_pin(r.scores);
    pipe.release_v(i - 1);
    pack_probabilities<kCount, typename C::Element>(r.scores, r.probabilities);
  }
}

// One consumer warpgroup's life. At the head of the loop QK of the first block of `work` is in flight.
template <typename C>
struct Consumer {
  const FwdParams &p;
  SharedMemory<C> &s;
  const int w;
  const Pipeline<C> pipe;
  Ring<C::kQueryStages> q;  // buffer of `work`
  Work<C> work;
  uint32_t block = 0;  // number of the tile's first block
  Registers<C> r;

  __device__ Consumer(const FwdParams &p_, SharedMemory<C> &s_, int w_)
      : p(p_), s(s_), w(w_), pipe{s_, threadIdx.x % 32 == 0}, work(p_, s_, q, w_) {}

  __device__ KMajor queries(int slot) const { return KMajor(uniform(ptx::smem_address(s.q[slot]) + w * 64 * 128)); }

  // The staging rows of `slot` are written: tell the warp that stores them.
  __device__ void hand_over(int slot) const {
    ptx::fence_async_proxy();
    __syncwarp();
    if (pipe.signals) ptx::mbarrier_arrive(&s.o_full[slot][w]);
  }

  // O is complete: out it goes.
  __device__ void leave(const Work<C> &done, int slot) const {
    if (C::kReference == Reference::kFixed && done.tile.redo == 0 && out_of_range(r.out, r.rows) && pipe.signals) {
      atomicOr(&s.overflow[slot], 1u << w);
    }
    finish_rows<C>(p, done.tile, done.first_row, r.out, r.rows, s.q[slot] + w * 64 * 64);
    hand_over(slot);
  }

  __device__ void next() {
    block += work.blocks;
    q.advance();
    work = Work<C>(p, s, q, w);
  }

  // Goes on to the next tile in which this consumer has keys to look at; false when there is none.
  __device__ bool find_work() {
    for (;;) {
      if (!work.real()) {
        if (work.tile.redo) return false;
        work.blocks = 0;
      } else if (work.range.end > 0) {
        return true;
      } else {
        if (!work.left_alone(w)) finish_empty_rows<C>(p, work.tile, work.first_row, s.q[q.slot] + w * 64 * 64);
        hand_over(q.slot);
        pipe.pass_over(block, block + work.blocks);
      }
      next();
    }
  }

  __device__ void run() {
    while (find_work()) {
      start_qk(pipe, uniform(block), queries(q.slot), r);
      while (run_tile()) {
      }
    }
  }

  // From QK of the first block in flight to O handed over. True when it has gone on to the next tile and that one's
  // first QK is in flight.
  __device__ bool run_tile() {
    block = uniform(block);
    const Work<C> done = work;
    const int slot = q.slot;
    const KMajor tile_q = queries(slot);
    if (C::kReference == Reference::kRunningMax || done.tile.redo != 0) {
      attend<C, Reference::kRunningMax>(p, pipe, block, tile_q, done, r);
    } else {
      attend<C, Reference::kFixed>(p, pipe, block, tile_q, done, r);
    }
    // The next tile's first QK runs under this tile's last PV and its way out. With one query buffer there is no next
    // tile yet; a consumer that must pass blocks over has time enough later.
    const uint32_t end = block + done.range.end;
    const bool ahead = C::kQueryStages > 1 && done.range.end == done.blocks;
    if (ahead) {
      next();
      if (work.real() && work.range.end > 0) {
        start_pv<C, C::kBlockN>(pipe, end - 1, r);
        start_qk(pipe, uniform(block), queries(q.slot), r);
        ptx::wgmma_wait<1>();
        ptx::wgmma_pin(r.out);
        pipe.release_v(end - 1);
        leave(done, slot);
        return true;
      }
    }
    start_pv<C, C::kBlockN>(pipe, end - 1, r);
    ptx::wgmma_wait<0>();
    ptx::wgmma_pin(r.out);
    pipe.release_v(end - 1);
    leave(done, slot);
    if (!ahead) {
      pipe.pass_over(end, block + done.blocks);
      next();
    }
    return false;
  }
};

}  // namespace flashattn::sm90
