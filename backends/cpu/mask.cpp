// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/mask.h"

#include <algorithm>

namespace flashattn::cpu {

KeyRange visible_keys(const Shape &shape, int64_t n_k, int64_t diagonal, int64_t i) {
  const int64_t position = i + diagonal;
  int64_t begin = 0;
  int64_t end = n_k;
  if (shape.causal) end = std::min(end, position + 1);
  if (shape.window_left >= 0) begin = std::max(begin, position - shape.window_left);
  if (shape.window_right >= 0) end = std::min(end, position + shape.window_right + 1);
  return {std::min(begin, n_k), std::max<int64_t>(end, 0)};
}

KeyRange visible_keys(const Shape &shape, int64_t n_k, int64_t diagonal, int64_t first, int64_t last) {
  return {visible_keys(shape, n_k, diagonal, first).begin, visible_keys(shape, n_k, diagonal, last).end};
}

}  // namespace flashattn::cpu
