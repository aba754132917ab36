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

// S = Q K^T of 64 rows, by k16 steps along the head dimension.
template <typename C>
__device__ inline void multiply_qk(float (&scores)[C::kBlockN / 2], KMajor q, KMajor k) {
#pragma unroll
  for (int step = 0; step < C::kHeadDim / 16; ++step) {
    const int chunk = step / 4, byte = step % 4 * 32;
    const uint64_t a = q.at(chunk * C::kBlockM * 128 + byte).descriptor();
    const uint64_t b = k.at(chunk * C::kBlockN * 128 + byte).descriptor();
    if (step == 0) {
      ptx::Wgmma<typename C::Element, C::kBlockN>::ss_first(scores, a, b);
    } else {
      ptx::Wgmma<typename C::Element, C::kBlockN>::ss(scores, a, b);
    }
  }
}

// O += P V, by k16 steps along the keys.
template <typename C>
__device__ inline void multiply_pv(float (&out)[C::kHeadDim / 2], const uint32_t (&p)[C::kBlockN / 4],
                                   ValueMajor<C> v) {
#pragma unroll
  for (int step = 0; step < C::kBlockN / 16; ++step) {
    ptx::Wgmma<typename C::Element, C::kHeadDim>::rs(out, p + 4 * step, v.at(step * 16 * 128).descriptor());
  }
}

// Tells the compiler that all lanes hold the same value: a wgmma must not sit on a path it takes for divergent, and
// descriptors belong in uniform registers.
template <typename T>
__device__ inline T uniform(T x) {
  return __shfl_sync(0xffffffffu, x, 0);
}
__device__ inline Tile uniform(const Tile &tile) {
  return {uniform(tile.first_row), uniform(tile.head), uniform(tile.batch), uniform(tile.redo)};
}

// Products in turn. Barrier 1 + w is consumer w's turn: its 128 threads wait, the 128 of the one before it arrive.
// Every consumer takes as many turns as its neighbours, also for blocks it passes over.
template <typename C>
struct ProductTurn {
  static constexpr bool kUsed = C::kTurns == Turns::kProducts;
  __device__ static void open(int w) {
    if (kUsed && w == C::kConsumers - 1) ptx::named_barrier_arrive(1, 256);
  }
  __device__ static void wait(int w) {
    if (kUsed) ptx::named_barrier_sync(1 + w, 256);
  }
  __device__ static void pass(int w) {
    if (kUsed) ptx::named_barrier_arrive(1 + (w + 1 == C::kConsumers ? 0 : w + 1), 256);
  }
};

// Exponentials in turn. Warp i of every warpgroup runs on quarter i of the SM and shares its special function unit
// with warp i of the others. Left alone they all reach their exponentials together, share the unit evenly, finish
// together and leave it idle together; one at a time they stay apart, and the unit is busy while the others multiply.
// A turn is one block of the pipeline, so its parity is the block's.
template <typename C>
struct ExponentialTurn {
  static constexpr bool kUsed = C::kTurns == Turns::kExponentials;
  uint32_t mine, next;
  bool signals;
  __device__ ExponentialTurn(SharedMemory<C> &s, int w, bool signals_)
      : mine(ptx::smem_address(&s.turn[w][threadIdx.x / 32 % 4])),
        next(ptx::smem_address(&s.turn[w + 1 == C::kConsumers ? 0 : w + 1][threadIdx.x / 32 % 4])),
        signals(signals_) {
    if (kUsed && w == C::kConsumers - 1 && signals) ptx::mbarrier_arrive(next);
  }
  // Returns `x`, in a way that keeps what is computed from it behind the wait.
  __device__ float wait(uint32_t block, float x) const {
    if (!kUsed) return x;
    uint32_t done;
    while (!(done = ptx::mbarrier_try_wait(mine, block % 2))) {
    }
    float y;
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %1, 0;\nselp.f32 %0, %2, 0f00000000, p;\n}\n"
                 : "=f"(y)
                 : "r"(done), "f"(x));
    return y;
  }
  __device__ void pass() const {
    if (kUsed && signals) ptx::mbarrier_arrive(next);
  }
};

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
};

// One tile: rows [first_row, first_row + 64) against key blocks 0 .. range.end - 1, which are blocks `block` and on of
// the pipeline; leaves O unnormalised. QK of block n is issued before PV of block n - 1, and the softmax of block n
// runs while that PV does.
template <typename C, Reference kReference>
__device__ inline void attend(const FwdParams &p, const Pipeline<C> &pipe, uint32_t block, int w,
                              const ExponentialTurn<C> &turn, uint32_t q_tile, int first_row, KeyRange range, float (&out)[C::kHeadDim / 2],
                              Rows &rows) {
  const int row = first_row + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
  const int lane_column = threadIdx.x % 4 * 2;
  const float c = p.scale_log2;
  const KMajor q(q_tile), k(ptx::smem_address(pipe.s.k));
  const ValueMajor<C> v(ptx::smem_address(pipe.s.v));
  float scores[C::kBlockN / 2];
  uint32_t probabilities[C::kBlockN / 4];

  const auto start_qk = [&](uint32_t i) {
    ptx::wgmma_fence();
    multiply_qk<C>(scores, q, k.at(pipe.bytes(i)));
    ptx::wgmma_commit();
  };
  const auto start_pv = [&](uint32_t i) {
    ptx::wgmma_pin(out);
    ptx::wgmma_fence();
    multiply_pv<C>(out, probabilities, v.at(pipe.bytes(i)));
    ptx::wgmma_commit();
  };
  const auto mask = [&](int n) {
    const int limit[2] = {visible_keys(p, row) - n * C::kBlockN, visible_keys(p, row + 8) - n * C::kBlockN};
    mask_scores(scores, limit, lane_column);
  };
  const auto finish_pv = [&] {
    ptx::wgmma_wait<0>();
    ptx::wgmma_pin(out);
  };
  const auto track_maximum = [&] {
    float top[2], factor[2];
    if (outgrown(scores, rows, c, top)) {
      finish_pv();
      follow_maximum(rows, c, top, factor);
      scale_rows(out, factor);
    }
    if (rows.subtract_first) subtract_reference(scores, rows);
  };

  if constexpr (C::kOverlap == Overlap::kOthers) {
#pragma unroll 1
    for (int n = 0; n < range.end; ++n) {
      const uint32_t i = uniform(block + n);
      pipe.wait_k(i);
      start_qk(i);
      ptx::wgmma_wait<0>();
      ptx::wgmma_pin(scores);
      pipe.release_k(i);
      if (n >= range.all_visible) mask(n);
      if (kReference == Reference::kRunningMax || n == 0) track_maximum();
      scores_to_exponents(scores, rows, c);
      exponentiate(scores);
      add_sums(scores, rows);
      if (kReference == Reference::kFixed) {
        if (n == 0) fix_reference(rows);
        if (sum_outgrown(rows)) {
          float factor[2];
          follow_sum(rows, factor);
          scale_rows(scores, factor);
          scale_rows(out, factor);
        }
      }
      pack_probabilities<typename C::Element>(scores, probabilities);
      pipe.wait_v(i);
      start_pv(i);
      finish_pv();
      pipe.release_v(i);
    }
    return;
  }

  pipe.wait_k(block);
  start_qk(block);
  ptx::wgmma_wait<0>();
  ptx::wgmma_pin(scores);
  pipe.release_k(block);
  if (range.all_visible == 0) mask(0);
  track_maximum();
  scores_to_exponents(scores, rows, turn.wait(block, c));
  exponentiate(scores);
  add_sums(scores, rows);
  fence_exponentials(rows);
  turn.pass();
  if (kReference == Reference::kFixed) fix_reference(rows);
  pack_probabilities<typename C::Element>(scores, probabilities);

#pragma unroll 1
  for (int n = 1; n < range.end; ++n) {
    pipe.wait_k(block + n);
    ProductTurn<C>::wait(w);
    start_qk(block + n);
    pipe.wait_v(block + n - 1);
    start_pv(block + n - 1);
    ProductTurn<C>::pass(w);
    ptx::wgmma_wait<1>();
    ptx::wgmma_pin(scores);
    pipe.release_k(block + n);
    if (n >= range.all_visible) mask(n);
    if (kReference == Reference::kRunningMax) track_maximum();
    scores_to_exponents(scores, rows, turn.wait(block + n, c));
    exponentiate(scores);
    add_sums(scores, rows);
    if (kReference == Reference::kFixed) {
      if (sum_outgrown(rows)) {
        float factor[2];
        finish_pv();
        follow_sum(rows, factor);
        scale_rows(scores, factor);
        scale_rows(out, factor);
      }
    } else {
      fence_exponentials(rows);
    }
    turn.pass();
    finish_pv();
    ptx::wgmma_pin(scores);
    pipe.release_v(block + n - 1);
    pack_probabilities<typename C::Element>(scores, probabilities);
  }

  const uint32_t last = block + range.end - 1;
  pipe.wait_v(last);
  start_pv(last);
  finish_pv();
  pipe.release_v(last);
}

// Blocks other consumers of the tile need and this one does not: hand them back unread.
template <typename C>
__device__ inline void pass_over(const Pipeline<C> &pipe, uint32_t block, int w, const ExponentialTurn<C> &turn,
                                 int from, int to) {
#pragma unroll 1
  for (int n = from; n < to; ++n) {
    pipe.wait_k(block + n);
    pipe.release_k(block + n);
    if (n > 0) {
      ProductTurn<C>::wait(w);
      ProductTurn<C>::pass(w);
    }
    turn.wait(block + n, 0.0f);
    turn.pass();
    pipe.wait_v(block + n);
    pipe.release_v(block + n);
  }
}

template <typename C>
__device__ inline void consume_tiles(const FwdParams &p, SharedMemory<C> &s, int w) {
  Ring<C::kQueryStages> q;
  const bool signals = threadIdx.x % 32 == 0;
  const Pipeline<C> pipe{s, signals};
  uint32_t block = 0;
  ProductTurn<C>::open(w);
  const ExponentialTurn<C> turn(s, w, signals);
  for (;;) {
    ptx::mbarrier_wait(&s.q_full[q.slot], q.phase);
    const Tile tile = uniform(s.tile[q.slot]);
    if (tile.first_row < 0) {
      if (tile.redo) break;
      q.advance();
      continue;
    }
    const int first_row = tile.first_row + 64 * w;
    const int tile_end = key_range<C::kBlockN>(p, tile.first_row, C::kBlockM).end;
    KeyRange range = key_range<C::kBlockN>(p, first_row, 64);
    const bool skip = tile.redo != 0 && !(tile.redo >> w & 1);
    if (skip) range.end = 0;

    block = uniform(block);

    float out[C::kHeadDim / 2];
#pragma unroll
    for (int i = 0; i < C::kHeadDim / 2; ++i) out[i] = 0.0f;
    Rows rows;
    rows.reset();
    if (range.end > 0) {
      const uint32_t q_tile = uniform(ptx::smem_address(s.q[q.slot]) + w * 64 * 128);
      if (C::kReference == Reference::kRunningMax || tile.redo != 0) {
        attend<C, Reference::kRunningMax>(p, pipe, block, w, turn, q_tile, first_row, range, out, rows);
      } else {
        attend<C, Reference::kFixed>(p, pipe, block, w, turn, q_tile, first_row, range, out, rows);
      }
    }
    pass_over<C>(pipe, block, w, turn, range.end, tile_end);
    block += tile_end;

    if (C::kReference == Reference::kFixed && tile.redo == 0 && out_of_range(out, rows) && signals) {
      atomicOr(&s.overflow[q.slot], 1u << w);
    }
    if (!skip) {
      finish_rows<C>(p, tile, first_row, out, rows, s.q[q.slot] + w * 64 * 64);
      ptx::fence_async_proxy();
      __syncwarp();
    }
    if (signals) ptx::mbarrier_arrive(&s.o_full[q.slot][w]);
    q.advance();
  }
}

}  // namespace flashattn::sm90
