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

// S = Q K^T of 64 rows, by k16 steps along the head dimension.
template <typename C>
__device__ inline void multiply_qk(float (&scores)[C::kBlockN / 2], uint32_t q, uint32_t k) {
#pragma unroll
  for (int step = 0; step < C::kHeadDim / 16; ++step) {
    const int chunk = step / 4, byte = step % 4 * 32;
    ptx::Wgmma<typename C::Element, C::kBlockN>::ss(
        scores, ptx::matrix_descriptor<16, 1024>(q + chunk * C::kBlockM * 128 + byte),
        ptx::matrix_descriptor<16, 1024>(k + chunk * C::kBlockN * 128 + byte), step != 0);
  }
}

// O += P V, by k16 steps along the keys.
template <typename C>
__device__ inline void multiply_pv(float (&out)[C::kHeadDim / 2], const uint32_t (&p)[C::kBlockN / 4], uint32_t v) {
#pragma unroll
  for (int step = 0; step < C::kBlockN / 16; ++step) {
    ptx::Wgmma<typename C::Element, C::kHeadDim>::rs(
        out, p + 4 * step, ptx::matrix_descriptor<C::kBlockN * 128, 1024>(v + step * 16 * 128), 1);
  }
}

// The consumers issue their products one after another, so that one's softmax runs under another's products.
// Barrier 1 + w is consumer w's turn: its 128 threads wait, the 128 of the one before it arrive.
template <typename C>
struct Turns {
  __device__ static void open(int w) {
    if (C::kTurns && w == C::kConsumers - 1) ptx::named_barrier_arrive(1, 256);
  }
  __device__ static void wait(int w) {
    if (C::kTurns) ptx::named_barrier_sync(1 + w, 256);
  }
  __device__ static void pass(int w) {
    if (C::kTurns) ptx::named_barrier_arrive(1 + (w + 1 == C::kConsumers ? 0 : w + 1), 256);
  }
};

// K and V blocks are numbered through the life of the kernel: block i sits in slot i % kStages, and its "full" phase
// has parity i / kStages % 2. Consumers count alike, whatever they skip.
template <typename C>
struct Pipeline {
  SharedMemory<C> &s;
  bool signals;  // one lane of each warp signals for it

  __device__ static uint32_t slot(uint32_t block) { return block % C::kStages; }
  __device__ static uint32_t parity(uint32_t block) { return block / C::kStages % 2; }
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
__device__ inline void attend(const FwdParams &p, const Pipeline<C> &pipe, uint32_t block, int w, uint32_t q_tile,
                              int first_row, KeyRange range, float (&out)[C::kHeadDim / 2], Rows &rows) {
  const int row = first_row + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
  const int lane_column = threadIdx.x % 4 * 2;
  const float c = p.scale_log2;
  const uint32_t k_tiles = ptx::smem_address(pipe.s.k), v_tiles = ptx::smem_address(pipe.s.v);
  float scores[C::kBlockN / 2];
  uint32_t probabilities[C::kBlockN / 4];

  const auto start_qk = [&](int n) {
    ptx::wgmma_pin(scores);
    ptx::wgmma_fence();
    multiply_qk<C>(scores, q_tile, k_tiles + pipe.slot(block + n) * C::kKeyBytes);
    ptx::wgmma_commit();
  };
  const auto start_pv = [&](int n) {
    ptx::wgmma_pin(out);
    ptx::wgmma_fence();
    multiply_pv<C>(out, probabilities, v_tiles + pipe.slot(block + n) * C::kKeyBytes);
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
  // Scores to probabilities against the running maximum.
  const auto soften = [&] {
    float top[2], factor[2];
    if (outgrown(scores, rows, c, top)) {
      finish_pv();
      follow_maximum(rows, c, top, factor);
      scale_rows(out, factor);
    }
    if (rows.subtract_first) subtract_reference(scores, rows);
    exponentiate(scores, rows, c);
  };

  pipe.wait_k(block);
  start_qk(0);
  ptx::wgmma_wait<0>();
  ptx::wgmma_pin(scores);
  pipe.release_k(block);
  if (range.all_visible == 0) mask(0);
  soften();
  if (kReference == Reference::kFixed) fix_reference(rows);
  pack_probabilities<typename C::Element>(scores, probabilities);

#pragma unroll 1
  for (int n = 1; n < range.end; ++n) {
    pipe.wait_k(block + n);
    Turns<C>::wait(w);
    start_qk(n);
    pipe.wait_v(block + n - 1);
    start_pv(n - 1);
    Turns<C>::pass(w);
    ptx::wgmma_wait<1>();
    ptx::wgmma_pin(scores);
    pipe.release_k(block + n);
    if (n >= range.all_visible) mask(n);
    if (kReference == Reference::kFixed) {
      exponentiate(scores, rows, c);
      if (sum_outgrown(rows)) {
        float factor[2];
        finish_pv();
        follow_sum(rows, factor);
        scale_rows(scores, factor);
        scale_rows(out, factor);
      }
    } else {
      soften();
      // Never taken. A branch on the sums keeps the assembler from moving the wait for PV up past the exponentials
      // that are meant to run under it; the fixed reference's test does the same for free.
      if (rows.sum[0] < 0.0f) __nanosleep(0);
    }
    finish_pv();
    ptx::wgmma_pin(scores);
    pipe.release_v(block + n - 1);
    pack_probabilities<typename C::Element>(scores, probabilities);
  }

  const int last = range.end - 1;
  pipe.wait_v(block + last);
  start_pv(last);
  finish_pv();
  pipe.release_v(block + last);
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

// Blocks other consumers of the tile need and this one does not: hand them back unread.
template <typename C>
__device__ inline void pass_over(const Pipeline<C> &pipe, uint32_t block, int w, int from, int to) {
#pragma unroll 1
  for (int n = from; n < to; ++n) {
    pipe.wait_k(block + n);
    pipe.release_k(block + n);
    if (n > 0) {
      Turns<C>::wait(w);
      Turns<C>::pass(w);
    }
    pipe.wait_v(block + n);
    pipe.release_v(block + n);
  }
}

template <typename C>
__device__ inline void consume_tiles(const FwdParams &p, SharedMemory<C> &s, int w) {
  Ring<C::kQueryStages> q;
  const Pipeline<C> pipe{s, threadIdx.x % 32 == 0};
  uint32_t block = 0;
  Turns<C>::open(w);
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
        attend<C, Reference::kRunningMax>(p, pipe, block, w, q_tile, first_row, range, out, rows);
      } else {
        attend<C, Reference::kFixed>(p, pipe, block, w, q_tile, first_row, range, out, rows);
      }
    }
    pass_over<C>(pipe, block, w, range.end, tile_end);
    block += tile_end;

    if (C::kReference == Reference::kFixed && tile.redo == 0 && out_of_range(out, rows) && pipe.signals) {
      atomicOr(&s.overflow[q.slot], 1u << w);
    }
    if (!skip) {
      finish_rows<C>(p, tile, first_row, out, rows, s.q[q.slot] + w * 64 * 64);
      ptx::fence_async_proxy();
      __syncwarp();
    }
    if (pipe.signals) ptx::mbarrier_arrive(&s.o_full[q.slot][w]);
    q.advance();
  }
}

}  // namespace flashattn::sm90
