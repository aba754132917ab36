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

// O = O / l to `to` (64 rows of shared memory, 128-byte swizzle, chunks as in SharedMemory); LSE straight to global
// memory. A row that saw no key has l = 0: O = 0, LSE = -inf.
template <typename C>
__device__ inline void finish_rows(const FwdParams &p, const Tile &tile, int first_row, float (&out)[C::kHeadDim / 2],
                                   const Rows &rows, typename C::Element *to) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  float inverse[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float total = quad_sum(rows.sum[r]);
    const bool empty = rows.reference[r] == -INFINITY && total == 0.0f;
    inverse[r] = empty ? 0.0f : 1.0f / total;
    const int row = first_row + warp * 16 + r * 8 + lane / 4;
    if (p.lse != nullptr && lane % 4 == 0 && row < p.n_q) {
      constexpr float kLn2 = 0.693147180559945309f;
      p.lse[tile.batch * p.lse_stride_batch + tile.head * p.lse_stride_head + row * p.lse_stride_row] =
          empty ? -INFINITY : (rows.logarithm(r, p.scale_log2) + log2f(total)) * kLn2;
    }
  }
  scale_rows(out, inverse);

  // Lane l addresses row l % 16 of the warp's 16 and the left or right 8 columns of 16; the swizzle exchanges
  // 16-byte units by the row's place in its group of eight.
  const int row = warp * 16 + lane % 16;
  const uint32_t base = ptx::smem_address(to) + row * 128;
#pragma unroll
  for (int j = 0; j < C::kHeadDim / 16; ++j) {
    const int unit = j % 4 * 2 + lane / 16;
    const float *o = out + 8 * j;
    ptx::store_matrix_x4(base + j / 4 * C::kBlockM * 128 + ((unit ^ row % 8) << 4),
                         ptx::pack<typename C::Element>(o[0], o[1]), ptx::pack<typename C::Element>(o[2], o[3]),
                         ptx::pack<typename C::Element>(o[4], o[5]), ptx::pack<typename C::Element>(o[6], o[7]));
  }
}

}  // namespace flashattn::sm90
