// SPDX-License-Identifier: Apache-2.0
#include "bench/ladder/matmul.h"

#include <cstring>

#include "bench/ladder/vector_clones.h"

namespace flashattn::ladder {

namespace {

// 6 rows x 2 vectors of accumulators, two of B and one of A: the 16 registers of AVX2.
using Lanes = float __attribute__((vector_size(32)));
constexpr int64_t kLanes = 8;
constexpr int64_t kTileRows = 6;
constexpr int64_t kTileVectors = 2;
constexpr int64_t kTileColumns = kTileVectors * kLanes;

template <int64_t kRows>
__attribute__((always_inline)) inline void multiply_tile(int64_t inner, float alpha, Rows a, Rows b,
                                                         const float *keep, float *c, int64_t stride_c) {
  Lanes sum[kRows][kTileVectors] = {};
  for (int64_t l = 0; l < inner; ++l) {
    Lanes y[kTileVectors];
    std::memcpy(y, b.data + l * b.stride, sizeof y);
    for (int64_t r = 0; r < kRows; ++r) {
      const float x = a.data[r * a.stride + l];
      for (int64_t v = 0; v < kTileVectors; ++v) sum[r][v] += x * y[v];
    }
  }
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t v = 0; v < kTileVectors; ++v) {
      float *out = c + r * stride_c + v * kLanes;
      Lanes result = alpha * sum[r][v];
      if (keep != nullptr) {
        Lanes old;
        std::memcpy(&old, out, sizeof old);
        result += keep[r] * old;
      }
      std::memcpy(out, &result, sizeof result);
    }
  }
}

}  // namespace

FLASHATTN_VECTOR_CLONES void multiply(int64_t rows, int64_t columns, int64_t inner, float alpha, Rows a,
                                      Rows b, const float *keep, float *c, int64_t stride_c) {
  int64_t n = 0;
  // Columns outside: kTileColumns columns of B stay in the first-level cache for all rows.
  for (; n + kTileColumns <= columns; n += kTileColumns) {
    const Rows b_n = {b.data + n, b.stride};
    int64_t m = 0;
    for (; m + kTileRows <= rows; m += kTileRows) {
      multiply_tile<kTileRows>(inner, alpha, {a.data + m * a.stride, a.stride}, b_n,
                               keep != nullptr ? keep + m : nullptr, c + m * stride_c + n, stride_c);
    }
    for (; m < rows; ++m) {
      multiply_tile<1>(inner, alpha, {a.data + m * a.stride, a.stride}, b_n,
                       keep != nullptr ? keep + m : nullptr, c + m * stride_c + n, stride_c);
    }
  }
  for (; n < columns; ++n) {
    for (int64_t m = 0; m < rows; ++m) {
      float sum = 0;
      for (int64_t l = 0; l < inner; ++l) sum += a.data[m * a.stride + l] * b.data[l * b.stride + n];
      float *out = c + m * stride_c + n;
      *out = keep != nullptr ? keep[m] * *out + alpha * sum : alpha * sum;
    }
  }
}

void transpose(const float *k, int64_t keys, int64_t dim, float *t) {
  for (int64_t d = 0; d < dim; ++d) {
    for (int64_t j = 0; j < keys; ++j) t[d * keys + j] = k[j * dim + d];
  }
}

}  // namespace flashattn::ladder
