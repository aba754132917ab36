// SPDX-License-Identifier: Apache-2.0
// Arguments of the sm_90a forward kernels: plain fixed-width data, filled by the host once per call and
// passed by value as the one __grid_constant__ parameter.
#pragma once

#include <cstdint>

namespace flashattn::sm90 {

// A CUtensorMap, rank 4, 128-byte swizzle, zero fill, dimensions (column, row, head, batch), strides in
// bytes.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

struct alignas(64) FwdParams {
  // Boxes of 64 columns; rows: q = the kernel's block_m, k and v = block_n, o = 64.
  // The row extent is the sequence length: rows past it read as zero and are never written.
  TensorMap q, k, v, o;

  // Natural-log LSE or null; strides in elements.
  float *lse;
  int64_t lse_stride_batch, lse_stride_head, lse_stride_row;

  // Workspace: one counter, zero before the first launch; every launch leaves it at zero.
  int32_t *tile_counter;

  int32_t n_q, n_k;           // rows of one sequence
  int32_t heads, group_size;  // query heads; query heads per K/V head
  int32_t batch_heads;        // batch * heads
  int32_t causal;             // key j is visible to query i when j <= i + diagonal
  int32_t diagonal;           // n_k - n_q + diag_offset
  int32_t m_tiles;            // ceil(n_q / block_m)
  int32_t total_tiles;        // m_tiles * batch_heads
  int32_t heads_per_group;    // heads swept together so that their K and V stay in L2 (schedule.cuh)
  float scale_log2;           // softmax scale * log2(e), > 0
  int32_t padding[3];

  // O once more, for kernels that store it from registers; strides in elements, multiples of 8.
  void *o_rows;
  int64_t o_stride_batch, o_stride_head, o_stride_row;
};
static_assert(sizeof(FwdParams) == 640);

}  // namespace flashattn::sm90
