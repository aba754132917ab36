// SPDX-License-Identifier: Apache-2.0
// Forward attention on compute capability 9.0: O = softmax(scale Q K^T + mask) V for a dense batch.
//
// One block an SM, persistent. The first warpgroup moves data (producer.cuh), the others compute
// (consumer.cuh). They meet only at the transaction barriers of SharedMemory.
#pragma once

#include "../ptx/mbarrier.cuh"
#include "../ptx/sync.cuh"
#include "../ptx/tma.cuh"
#include "config.cuh"
#include "consumer.cuh"
#include "params.h"
#include "producer.cuh"

namespace flashattn::sm90 {

template <typename C>
__device__ inline void init_barriers(SharedMemory<C> &s) {
  constexpr int kConsumerWarps = 4 * C::kConsumers;
  for (int i = 0; i < C::kStages; ++i) {
    ptx::mbarrier_init(&s.k_full[i], 1);
    ptx::mbarrier_init(&s.v_full[i], 1);
    ptx::mbarrier_init(&s.k_empty[i], kConsumerWarps);
    ptx::mbarrier_init(&s.v_empty[i], kConsumerWarps);
  }
  for (int i = 0; i < kTileSlots; ++i) {
    ptx::mbarrier_init(&s.q_full[i], 1);
    ptx::mbarrier_init(&s.tile_done[i], C::kStoresDirectly ? kConsumerWarps : 1);
    for (int w = 0; w < C::kConsumers; ++w) ptx::mbarrier_init(&s.o_full[i][w], 4);
    s.overflow[i] = 0;
  }
  ptx::mbarrier_init(&s.q_read, kConsumerWarps);
  ptx::mbarrier_init_fence();
}

template <typename C>
__device__ inline void forward(const FwdParams &p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  SharedMemory<C> &s = *reinterpret_cast<SharedMemory<C> *>(memory);
  if (threadIdx.x == 0) init_barriers(s);
  __syncthreads();

  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (warpgroup == 0) {
    ptx::registers_shrink<C::kProducerRegisters>();
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) {
      if (warp == 0) load_tiles(p, s);
      if (warp == 1 && !C::kStoresDirectly) store_tiles(p, s);
    }
  } else {
    ptx::registers_grow<C::kConsumerRegisters>();
    consume_tiles(p, s, warpgroup - 1);
  }
}

}  // namespace flashattn::sm90
