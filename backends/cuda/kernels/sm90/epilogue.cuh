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

// Where one consumer's 64 rows of O wait for the copy engine: chunks of 64 columns as in SharedMemory, 128-byte swizzle.
// A store of 16 columns has lane l address row l % 16 of the warp's 16 and the left or right 8 of the columns; the
// swizzle exchanges 16-byte units by the row's place in its group of eight.
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

// O = O / l to the staging rows, LSE to global memory. A row that saw no key has l = 0: O = 0, LSE = -inf.
template <typename C>
__device__ inline void finish_rows(const FwdParams &p, const Tile &tile, int first_row,
                                   const float (&out)[C::kHeadDim / 2], const Rows &rows, typename C::Element *to) {
  constexpr float kLn2 = 0.693147180559945309f;
  float inverse[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float total = quad_sum(rows.sum[r]);
    const bool empty = rows.reference[r] == -INFINITY && total == 0.0f;
    inverse[r] = empty ? 0.0f : __frcp_rn(total);
    const int row = first_row + threadIdx.x / 32 % 4 * 16 + r * 8 + threadIdx.x % 32 / 4;
    store_lse(p, tile, row, empty ? -INFINITY : (rows.logarithm(r, p.scale_log2) + log2f(total)) * kLn2);
  }
  const Staging<C> staging(to);
#pragma unroll
  for (int j = 0; j < C::kHeadDim / 16; ++j) {
    float o[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) o[i] = out[8 * j + i] * inverse[i / 2 % 2];
    ptx::store_matrix_x4(staging.address(j), ptx::pack<typename C::Element>(o[0], o[1]),
                         ptx::pack<typename C::Element>(o[2], o[3]), ptx::pack<typename C::Element>(o[4], o[5]),
                         ptx::pack<typename C::Element>(o[6], o[7]));
  }
}

// The same for 64 rows none of which sees a key.
template <typename C>
__device__ inline void finish_empty_rows(const FwdParams &p, const Tile &tile, int first_row,
                                         typename C::Element *to) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    store_lse(p, tile, first_row + threadIdx.x / 32 % 4 * 16 + r * 8 + threadIdx.x % 32 / 4, -INFINITY);
  }
  const Staging<C> staging(to);
#pragma unroll
  for (int j = 0; j < C::kHeadDim / 16; ++j) ptx::store_matrix_x4(staging.address(j), 0, 0, 0, 0);
}

}  // namespace flashattn::sm90
