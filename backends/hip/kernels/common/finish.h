// SPDX-License-Identifier: Apache-2.0
// The end of a row's online softmax (Milakov & Gimelshein 2018): from the running maximum and sum to what O is
// multiplied by and to the LSE.
#pragma once

#include "backends/hip/kernels/common/element.h"
#include "backends/hip/kernels/common/sequence.h"

namespace flashattn::hip {

struct RowResult {
  float scale;  // O = scale * sum_j exp(score_j - m) v_j
  float lse;    // natural logarithm
};

// m: the maximum score (-inf when no key is visible); sum = sum_j exp(score_j - m). A NaN sum stays NaN.
__device__ __forceinline__ RowResult finish_row(float m, float sum) {
  if (sum == 0.0F) return {0.0F, -kInfinity};
  return {1.0F / sum, m + log_of(sum)};
}

// The same with a sink: exp(sink) more in the denominator.
__device__ __forceinline__ RowResult finish_row_with_sink(float m, float sum, float sink) {
  const float top = max_of(m, sink);
  if (top == -kInfinity) return finish_row(m, sum);
  const float weight = exp_of(m - top);
  const float total = sum * weight + exp_of(sink - top);
  return {weight / total, top + log_of(total)};
}

// Of results that will be merged exactly one may count the sink; here it is the merge itself.
__device__ __forceinline__ RowResult finish_tile_row(const ForwardArgs &args, const Sequence &s, int32_t head,
                                                     float m, float sum) {
  if ((args.flags & gpu::kSinks) == 0 || args.splits > 1) return finish_row(m, sum);
  return finish_row_with_sink(m, sum, per_head_at(args.sinks, s, head));
}

__device__ __forceinline__ void store_lse(const ForwardArgs &args, const Sequence &s, int32_t split,
                                          PackedRow row, float lse) {
  if (args.splits > 1) {
    args.partial_lse[split * args.partial_rows + partial_row(args, s, row.i, row.head)] = lse;
  } else if (args.lse.data != nullptr) {
    static_cast<float *>(args.lse.data)[q_offset(args, args.lse, s, row.i, row.head)] = lse;
  }
}

// Where a row of O goes: the caller's tensor, or the partial results of a split.
struct OutputRow {
  void *data;
  int64_t offset;  // of column 0, in elements
  int32_t dtype;
};
__device__ __forceinline__ OutputRow output_row(const ForwardArgs &args, const Sequence &s, int32_t split,
                                                PackedRow row) {
  if (args.splits == 1) return {args.o.data, q_offset(args, args.o, s, row.i, row.head), args.dtype_o};
  const int64_t at = split * args.partial_rows + partial_row(args, s, row.i, row.head);
  return {args.partial_o, at * args.dim_v, FLASHATTN_DTYPE_F32};
}

}  // namespace flashattn::hip
