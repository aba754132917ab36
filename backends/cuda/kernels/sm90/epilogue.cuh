// SPDX-License-Identifier: Apache-2.0
// From accumulated rows to O and LSE.
#pragma once

#include <cmath>

#include "../ptx/math.cuh"
#include "../ptx/mbarrier.cuh"
#include "config.cuh"
#include "params.h"
#include "softmax.cuh"

namespace flashattn::sm90 {

// Did the fixed reference fail anywhere in this warp? inf and NaN survive every step from where they arose.
template <int kCount>
__device__ inline bool out_of_range(const float (&out)[kCount], const Rows &rows) {
  float probe = 0.0f;
#pragma unroll
  for (int i = 0; i < kCount; ++i) probe = fmaf(out[i], 0.0f, probe);
  probe = fmaf(rows.sum[0], 0.0f, fmaf(rows.sum[1], 0.0f, probe));
  return __any_sync(0xffffffffu, !(probe == 0.0f));
}

// The LSE of the thread's row r, natural logarithm, straight to global memory.
__device__ inline void store_lse(const FwdParams &p, const Tile &tile, int row, float lse) {
  if (p.lse != nullptr && threadIdx.x % 4 == 0 && row < p.n_q) {
    p.lse[tile.batch * p.lse_stride_batch + tile.head * p.lse_stride_head + row * p.lse_stride_row] = lse;
  }
}

// Where one consumer's 64 rows of O wait for the copy engine: chunks of 64 columns as in SharedMemory,
// 128-byte swizzle. A store of 16 columns has lane l address row l % 16 of the warp's 16 and the left or
// right 8 of the columns; the swizzle exchanges 16-byte units by the row's place in its group of eight.
template <typename C>
struct Staging {
  uint32_t base;
  int row;
  __device__ explicit Staging(typename C::Element *to)
      : base(ptx::smem_address(to)), row(threadIdx.x / 32 % 4 * 16 + threadIdx.x % 16) {}
  __device__ uint32_t address(int columns16) const {
    const int unit = columns16 % 4 * 2 + threadIdx.x % 32 / 16;
    return base + columns16 / 4 * C::kBlockM * 128 + row * 128 + ((unit ^ row % 8) << 4);
  }
};

// Word i of each lane of a quad moves to lane i: afterwards a lane holds one word of every lane, in lane
// order.
__device__ inline void transpose_quad(uint32_t (&x)[4]) {
#pragma unroll
  for (int bit = 1; bit <= 2; bit <<= 1) {
    const bool upper = threadIdx.x & bit;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & bit) continue;
      const uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? x[i] : x[i | bit], bit);
      x[i] = upper ? got : x[i];
      x[i | bit] = upper ? x[i | bit] : got;
    }
  }
}

// A row of O in global memory; null past the last one.
template <typename C>
__device__ inline typename C::Element *row_of_o(const FwdParams &p, const Tile &tile, int row) {
  if (row >= p.n_q) return nullptr;
  return static_cast<typename C::Element *>(p.o_rows) + tile.batch * p.o_stride_batch +
         tile.head * p.o_stride_head + row * p.o_stride_row;
}

__device__ inline int row_of_thread(int first_row, int r) {
  return first_row + static_cast<int>(threadIdx.x) / 32 % 4 * 16 + r * 8 +
         static_cast<int>(threadIdx.x) % 32 / 4;
}

// O = O / l, to the staging rows or, where there are none, to global memory; LSE to global memory. A row that
// saw no key has l = 0: O = 0, LSE = -inf.
template <typename C>
__device__ inline void finish_rows(const FwdParams &p, const Tile &tile, int first_row,
                                   const float (&out)[C::kHeadDim / 2], const Rows &rows,
                                   typename C::Element *staging_rows) {
  using Element = typename C::Element;
  constexpr float kLn2 = 0.693147180559945309f;
  float inverse[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float total = quad_sum(rows.sum[r]);
    const bool empty = rows.reference[r] == -INFINITY && total == 0.0f;
    inverse[r] = empty ? 0.0f : __frcp_rn(total);
    store_lse(p, tile, row_of_thread(first_row, r),
              empty ? -INFINITY : (rows.logarithm(r, p.scale_log2) + log2f(total)) * kLn2);
  }
  const auto word = [&](int columns8, int r) {
    const float *o = out + 4 * columns8 + 2 * r;
    return ptx::pack<Element>(o[0] * inverse[r], o[1] * inverse[r]);
  };
  if constexpr (C::kStoresDirectly) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      Element *to = row_of_o<C>(p, tile, row_of_thread(first_row, r));
#pragma unroll
      for (int j = 0; j < C::kHeadDim / 8; j += 4) {
        uint32_t x[4] = {word(j, r), word(j + 1, r), word(j + 2, r), word(j + 3, r)};
        transpose_quad(x);
        if (to)
          *reinterpret_cast<uint4 *>(to + 8 * (j + threadIdx.x % 4)) = make_uint4(x[0], x[1], x[2], x[3]);
      }
    }
  } else {
    const Staging<C> staging(staging_rows);
#pragma unroll
    for (int j = 0; j < C::kHeadDim / 8; j += 2) {
      ptx::store_matrix_x4(staging.address(j / 2), word(j, 0), word(j, 1), word(j + 1, 0), word(j + 1, 1));
    }
  }
}

// The same for 64 rows none of which sees a key.
template <typename C>
__device__ inline void finish_empty_rows(const FwdParams &p, const Tile &tile, int first_row,
                                         typename C::Element *staging_rows) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = row_of_thread(first_row, r);
    store_lse(p, tile, row, -INFINITY);
    if constexpr (C::kStoresDirectly) {
      typename C::Element *to = row_of_o<C>(p, tile, row);
      if (!to) continue;
      for (int j = threadIdx.x % 4; j < C::kHeadDim / 8; j += 4) {
        reinterpret_cast<uint4 *>(to)[j] = make_uint4(0, 0, 0, 0);
      }
    }
  }
  if constexpr (!C::kStoresDirectly) {
    const Staging<C> staging(staging_rows);
#pragma unroll
    for (int j = 0; j < C::kHeadDim / 16; ++j) ptx::store_matrix_x4(staging.address(j), 0, 0, 0, 0);
  }
}

}  // namespace flashattn::sm90
