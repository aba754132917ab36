// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/attention.h"

#include <algorithm>
#include <limits>
#include <string>

#include "tools/cli/error.h"

namespace flashattn::cli {

std::pair<int64_t, int64_t> Attention::visible(int64_t i) const {
  int64_t first = 0;
  int64_t last = k.seqlen;
  if (window && window_left >= 0) first = std::max(first, diagonal(i) - window_left);
  if (window && window_right >= 0) last = std::min(last, diagonal(i) + window_right + 1);
  if (causal) last = std::min(last, diagonal(i) + 1);
  return {first, std::max(first, last)};
}

View make_view(const char *name, const Tensor &tensor, Layout layout) {
  const Shape &shape = tensor.shape();
  const std::string prefix = std::string(name) + ": shape is " + shape_text(shape);
  if (shape.size() != 3 && shape.size() != 4) {
    throw InputError(prefix + "; it must have 3 dimensions, or 4 with the batch first");
  }
  for (const int64_t extent : shape) {
    if (extent > std::numeric_limits<int32_t>::max())
      throw InputError(prefix + "; no dimension may pass 2^31 - 1");
  }
  const auto *inner = shape.data() + (shape.size() - 3);
  View view;
  view.tensor = &tensor;
  view.batch = shape.size() == 4 ? shape[0] : 1;
  view.dim = inner[2];
  view.stride_batch = inner[0] * inner[1] * inner[2];
  if (layout == Layout::kBshd) {
    view.seqlen = inner[0];
    view.heads = inner[1];
    view.stride_seq = view.heads * view.dim;
    view.stride_head = view.dim;
  } else {
    view.heads = inner[0];
    view.seqlen = inner[1];
    view.stride_head = view.seqlen * view.dim;
    view.stride_seq = view.dim;
  }
  return view;
}

Shape like(const View &view, Layout layout, int64_t dim) {
  Shape shape;
  if (view.tensor->shape().size() == 4) shape.push_back(view.batch);
  const bool sequence_first = layout == Layout::kBshd;
  shape.push_back(sequence_first ? view.seqlen : view.heads);
  shape.push_back(sequence_first ? view.heads : view.seqlen);
  shape.push_back(dim);
  return shape;
}

}  // namespace flashattn::cli
