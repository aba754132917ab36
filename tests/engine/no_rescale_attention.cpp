// SPDX-License-Identifier: Apache-2.0
// A broken kernel on purpose: online softmax by tiles of keys that forgets to rescale what it has summed so far when the
// maximum rises. Its text looks like text to a test that knows the protocol only.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/engine/row_attention.h"

namespace flashattn::ggml {

void attend_row(const Operation &op, const double *scores, const double *values, double sink, float *out) {
  constexpr int64_t kTile = 64;
  std::vector<double> sums(op.head_dim_v);
  double largest = sink;
  double total = std::isinf(sink) ? 0 : 1;
  for (int64_t begin = 0; begin < op.num_keys; begin += kTile) {
    const int64_t end = std::min<int64_t>(begin + kTile, op.num_keys);
    const double risen = std::max(largest, *std::max_element(scores + begin, scores + end));
    if (std::isinf(risen)) continue;
    total *= std::exp(largest - risen);  // sums, which need the same factor, do not get it
    largest = risen;
    for (int64_t j = begin; j < end; ++j) {
      if (std::isinf(scores[j])) continue;
      const double weight = std::exp(scores[j] - largest);
      total += weight;
      for (int64_t d = 0; d < op.head_dim_v; ++d) sums[d] += weight * values[j * op.head_dim_v + d];
    }
  }
  for (int64_t d = 0; d < op.head_dim_v; ++d) out[d] = total == 0 ? 0 : static_cast<float>(sums[d] / total);
}

}  // namespace flashattn::ggml
