// SPDX-License-Identifier: Apache-2.0
// From q.k to a score, in the order the interface states: scale, softcap, ALiBi, bias. The mask is the caller's.
#pragma once

#include "backends/hip/kernels/common/element.h"
#include "backends/hip/kernels/common/sequence.h"

namespace flashattn::hip {

// What one row adds to its scores.
struct RowModifier {
  int64_t bias;      // offset of element (b, h, i, 0)
  int64_t position;  // i + d, the key on the diagonal
  float slope;
};

__device__ __forceinline__ RowModifier row_modifier(const ForwardArgs &args, const Sequence &s,
                                                    PackedRow row) {
  RowModifier modifier{};
  if ((args.flags & gpu::kBias) != 0) {
    modifier.bias = s.batch * args.bias.stride_batch + row.head * args.bias.stride_head +
                    static_cast<int64_t>(row.i) * args.bias.stride_q;
  }
  modifier.position = row.i + s.diagonal;
  if ((args.flags & gpu::kAlibi) != 0) modifier.slope = per_head_at(args.alibi, s, row.head);
  return modifier;
}

// j < n_k. A hidden key of a boolean mask scores -inf.
__device__ __forceinline__ float modified_score(const ForwardArgs &args, const RowModifier &row,
                                                float product, int32_t j) {
  float score = args.scale * product;
  if ((args.flags & gpu::kSoftcap) != 0) score = args.softcap * tanh_of(score / args.softcap);
  if ((args.flags & gpu::kAlibi) != 0) {
    const int64_t distance = row.position - j;
    score -= row.slope * static_cast<float>(distance < 0 ? -distance : distance);
  }
  if ((args.flags & gpu::kBias) != 0) {
    const int64_t at = row.bias + j * args.bias.stride_kv;
    if (args.dtype_bias == FLASHATTN_DTYPE_U8) {
      if (static_cast<const uint8_t *>(args.bias.data)[at] == 0) score = -kInfinity;
    } else {
      score += load_element(args.bias.data, at, args.dtype_bias);
    }
  }
  return score;
}

}  // namespace flashattn::hip
