// SPDX-License-Identifier: Apache-2.0
// From q.k to a score, in the order the interface states: scale, softcap, ALiBi, bias. The mask comes last
// and is the caller's.
#pragma once

#include "backends/cuda/kernels/common/element.cuh"
#include "backends/cuda/kernels/common/sequence.cuh"

namespace flashattn::cuda {

// What one row adds to its scores.
struct RowModifier {
  int64_t bias;      // offset of element (b, h, i, 0)
  int64_t position;  // i + d, the key on the diagonal
  float slope;
};

__device__ inline RowModifier row_modifier(const ForwardArgs &args, const Sequence &s, int64_t i,
                                           int32_t head) {
  RowModifier row{};
  if ((args.flags & gpu::kBias) != 0) {
    row.bias = s.batch * args.bias.stride_batch + head * args.bias.stride_head + i * args.bias.stride_q;
  }
  row.position = i + s.diagonal;
  if ((args.flags & gpu::kAlibi) != 0) row.slope = per_head_at(args.alibi, s, head);
  return row;
}

// j < n_k. A key that a boolean mask or a bias of -inf hides scores -inf, whatever its product. A real call: inlined into unrolled loops it would be
// most of a kernel's code.
__device__ __noinline__ float modified_score(const ForwardArgs &args, const RowModifier &row, float product,
                                             int32_t j) {
  float score = args.scale * product;
  if ((args.flags & gpu::kSoftcap) != 0) score = args.softcap * tanhf(score / args.softcap);
  if ((args.flags & gpu::kAlibi) != 0) {
    const int64_t distance = row.position - j;
    score -= row.slope * static_cast<float>(distance < 0 ? -distance : distance);
  }
  if ((args.flags & gpu::kBias) != 0) {
    const int64_t at = row.bias + j * args.bias.stride_kv;
    if (args.dtype_bias == FLASHATTN_DTYPE_U8) {
      if (static_cast<const uint8_t *>(args.bias.data)[at] == 0) score = minus_infinity();
    } else {
      const float bias = load_element(args.bias.data, at, args.dtype_bias);
      score = bias == minus_infinity() ? bias : score + bias;
    }
  }
  return score;
}

}  // namespace flashattn::cuda
