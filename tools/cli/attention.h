// SPDX-License-Identifier: Apache-2.0
// One attention problem as the tool's own, slow code sees it: tensors in host memory and what is asked of
// them.
#pragma once

#include <cstdint>
#include <utility>

#include "tools/cli/tensor.h"

namespace flashattn::cli {

// How the dimensions of Q, K, V and O are ordered. Three-dimensional tensors leave the batch out.
enum class Layout { kBshd, kBhsd };

// A tensor as [batch, seqlen, heads, dim], whatever order it is kept in. Strides are in elements; dim's is 1.
struct View {
  const Tensor *tensor = nullptr;
  int64_t batch = 0, seqlen = 0, heads = 0, dim = 0;
  int64_t stride_batch = 0, stride_seq = 0, stride_head = 0;

  int64_t row(int64_t b, int64_t s, int64_t h) const {
    return b * stride_batch + s * stride_seq + h * stride_head;
  }
};

// Bias or boolean mask, [batch or 1, heads or 1, n_q or 1, n_k or 1]; a stride of 0 where the extent is 1.
struct BiasView {
  const Tensor *tensor = nullptr;  // none when null
  int64_t stride_batch = 0, stride_head = 0, stride_q = 0, stride_kv = 0;
};

// ALiBi slopes or sinks, [heads] (stride_batch 0) or [batch, heads].
struct PerHeadView {
  const Tensor *tensor = nullptr;  // none when null
  int64_t stride_batch = 0;

  double at(int64_t b, int64_t h) const { return tensor->at(b * stride_batch + h); }
};

struct Attention {
  View q, k, v;
  BiasView bias;
  PerHeadView alibi, sinks;
  float scale = 0;    // 0: 1/sqrt(head_dim)
  float softcap = 0;  // 0: off
  bool causal = false;
  bool window = false;
  int32_t window_left = -1, window_right = -1;  // -1: unbounded
  int32_t diag_offset = 0;

  // The keys [first, last) that query i may see by causality and window (flashattn.h, "Semantics").
  std::pair<int64_t, int64_t> visible(int64_t i) const;
  // Column of the diagonal in row i: i + n_k - n_q + diag_offset.
  int64_t diagonal(int64_t i) const { return i + k.seqlen - q.seqlen + diag_offset; }
};

// A view of the tensor; throws InputError, beginning with `name`, unless it has 3 or 4 dimensions below 2^31.
View make_view(const char *name, const Tensor &tensor, Layout layout);

// The shape of a tensor with view's batch, seqlen and heads, the given dim, and rank and order as view's
// tensor.
Shape like(const View &view, Layout layout, int64_t dim);

}  // namespace flashattn::cli
