// SPDX-License-Identifier: Apache-2.0
// The end of a row's online softmax (Milakov & Gimelshein 2018): from the running maximum and sum to what O
// is multiplied by and to the LSE.
#pragma once

#include "backends/cuda/kernels/common/element.cuh"
#include "backends/cuda/kernels/common/sequence.cuh"

namespace flashattn::cuda {

struct RowResult {
  float scale;  // O = scale * sum_j exp(score_j - m) v_j
  float lse;    // natural logarithm
};

// m: the maximum score (-inf when no key is visible); sum = sum_j exp(score_j - m). A NaN sum stays NaN.
__device__ inline RowResult finish_row(float m, float sum) {
  if (sum == 0.0F) return {0.0F, minus_infinity()};
  return {1.0F / sum, m + logf(sum)};
}

// The same with a sink: exp(sink) more in the denominator.
__device__ inline RowResult finish_row_with_sink(float m, float sum, float sink) {
  const float top = fmaxf(m, sink);
  if (top == minus_infinity()) return finish_row(m, sum);
  const float weight = expf(m - top);
  const float total = sum * weight + expf(sink - top);
  return {weight / total, top + logf(total)};
}

// Of results that will be merged exactly one may count the sink; here it is the merge itself.
__device__ inline RowResult finish_tile_row(const ForwardArgs &args, const Sequence &s, int32_t head, float m,
                                            float sum) {
  if ((args.flags & gpu::kSinks) == 0 || args.splits > 1) return finish_row(m, sum);
  return finish_row_with_sink(m, sum, per_head_at(args.sinks, s, head));
}

__device__ inline void store_lse(const ForwardArgs &args, const Sequence &s, int64_t i, int32_t head,
                                 float lse) {
  if (args.lse.data == nullptr) return;
  static_cast<float *>(args.lse.data)[q_offset(args, args.lse, s, i, head)] = lse;
}

}  // namespace flashattn::cuda
