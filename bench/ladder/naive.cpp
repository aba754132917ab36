// SPDX-License-Identifier: Apache-2.0
// Rung 1, the definition: S = scale Q K^T, P = softmax(S) by rows, O = P V, each matrix whole.
#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/ladder/rows.h"
#include "bench/ladder/rungs.h"

namespace flashattn::ladder {

int64_t naive_floats(int64_t n, int64_t /*dim*/, int /*threads*/) {
  return 2 * n * n;
}

void softmax_row(const float *s, int64_t n, float *p) {
  const float m = *std::max_element(s, s + n);
  float sum = 0;
  for (int64_t j = 0; j < n; ++j) {
    p[j] = std::exp(s[j] - m);
    sum += p[j];
  }
  for (int64_t j = 0; j < n; ++j) p[j] /= sum;
}

void naive(const Problem &a, int threads, float *memory) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  float *s = memory;
  float *p = memory + a.n * a.n;
  for_row_blocks(a.n, 16, threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < a.n; ++j) {
        float dot = 0;
        for (int64_t d = 0; d < a.dim; ++d) dot += a.q[i * a.dim + d] * a.k[j * a.dim + d];
        s[i * a.n + j] = j < a.seen(i) ? a.scale * dot : kHidden;
      }
    }
  });
  for_row_blocks(a.n, 16, threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) softmax_row(s + i * a.n, a.n, p + i * a.n);
  });
  for_row_blocks(a.n, 16, threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t d = 0; d < a.dim; ++d) {
        float sum = 0;
        for (int64_t j = 0; j < a.n; ++j) sum += p[i * a.n + j] * a.v[j * a.dim + d];
        a.o[i * a.dim + d] = sum;
      }
    }
  });
}

}  // namespace flashattn::ladder
