// SPDX-License-Identifier: Apache-2.0
// Rung 2: the same three matrices, the products formed from tiles that stay in the cache and in registers.
#include <algorithm>
#include <limits>

#include "bench/ladder/matmul.h"
#include "bench/ladder/rows.h"
#include "bench/ladder/rungs.h"

namespace flashattn::ladder {

namespace {

constexpr int64_t kRows = 96;
constexpr int64_t kKeys = 64;

}  // namespace

int64_t blocked_floats(int64_t n, int64_t dim, int threads) {
  return 2 * n * n + threads * dim * kKeys;
}

void blocked(const Problem &a, int threads, float *memory) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  float *s = memory;
  float *p = memory + a.n * a.n;
  float *transposed = p + a.n * a.n;
  for_row_blocks(a.n, kRows, threads, [&](int64_t begin, int64_t end, int thread) {
    float *kt = transposed + thread * a.dim * kKeys;
    for (int64_t j = 0; j < a.n; j += kKeys) {
      const int64_t keys = std::min(kKeys, a.n - j);
      transpose(a.k + j * a.dim, keys, a.dim, kt);
      multiply(end - begin, keys, a.dim, a.scale, {a.q + begin * a.dim, a.dim}, {kt, keys}, nullptr,
               s + begin * a.n + j, a.n);
    }
  });
  for_row_blocks(a.n, kRows, threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      std::fill(s + i * a.n + a.seen(i), s + (i + 1) * a.n, kHidden);
      softmax_row(s + i * a.n, a.n, p + i * a.n);
    }
  });
  for_row_blocks(a.n, kRows, threads, [&](int64_t begin, int64_t end, int) {
    multiply(end - begin, a.dim, a.n, 1, {p + begin * a.n, a.n}, {a.v, a.dim}, nullptr, a.o + begin * a.dim,
             a.dim);
  });
}

}  // namespace flashattn::ladder
