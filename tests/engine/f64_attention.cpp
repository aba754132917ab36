// SPDX-License-Identifier: Apache-2.0
// The yardstick: softmax and sums in f64.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/engine/row_attention.h"

namespace flashattn::ggml {

void attend_row(const Operation &op, const double *scores, const double *values, double sink, float *out) {
  const double largest = std::max(sink, *std::max_element(scores, scores + op.num_keys));
  std::vector<double> sums(op.head_dim_v);
  double total = std::isinf(sink) ? 0 : std::exp(sink - largest);
  for (int64_t j = 0; j < op.num_keys; ++j) {
    if (std::isinf(scores[j])) continue;
    const double weight = std::exp(scores[j] - largest);
    total += weight;
    for (int64_t d = 0; d < op.head_dim_v; ++d) sums[d] += weight * values[j * op.head_dim_v + d];
  }
  for (int64_t d = 0; d < op.head_dim_v; ++d) out[d] = total == 0 ? 0 : static_cast<float>(sums[d] / total);
}

}  // namespace flashattn::ggml
