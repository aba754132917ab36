// SPDX-License-Identifier: Apache-2.0
// Rung 3: scores, softmax and the sum over V of one row before the next row begins. A thread keeps one row of
// scores; a key that a row does not see costs nothing.
#include "bench/ladder/matmul.h"
#include "bench/ladder/rows.h"
#include "bench/ladder/rungs.h"
#include "bench/ladder/vector_clones.h"

namespace flashattn::ladder {

namespace {

// s[j] = scale q.k[j], for `seen` keys.
FLASHATTN_VECTOR_CLONES void score_row(const Problem &a, const float *q, int64_t seen, float *s) {
  constexpr int64_t kLanes = 16;  // partial sums, so that the compiler may use vectors
  for (int64_t j = 0; j < seen; ++j) {
    const float *k = a.k + j * a.dim;
    float sums[kLanes] = {};
    int64_t d = 0;
    for (; d + kLanes <= a.dim; d += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += q[d + lane] * k[d + lane];
    }
    float dot = 0;
    for (const float sum : sums) dot += sum;
    for (; d < a.dim; ++d) dot += q[d] * k[d];
    s[j] = a.scale * dot;
  }
}

}  // namespace

int64_t fused_floats(int64_t n, int64_t /*dim*/, int threads) {
  return threads * n;
}

void fused(const Problem &a, int threads, float *memory) {
  for_row_blocks(a.n, 1, threads, [&](int64_t i, int64_t, int thread) {
    float *s = memory + thread * a.n;
    score_row(a, a.q + i * a.dim, a.seen(i), s);
    softmax_row(s, a.seen(i), s);
    multiply(1, a.dim, a.seen(i), 1, {s, a.n}, {a.v, a.dim}, nullptr, a.o + i * a.dim, a.dim);
  });
}

}  // namespace flashattn::ladder
