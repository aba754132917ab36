// SPDX-License-Identifier: Apache-2.0
// The matrix product that the rungs above the first share.
#pragma once

#include <cstdint>

namespace flashattn::ladder {

// A matrix by rows; row r begins at data + r * stride floats.
struct Rows {
  const float *data;
  int64_t stride;
};

// c[r][:] = keep[r] * c[r][:] + alpha * a[r][:] B with B [inner][columns]; keep null: c is only written.
void multiply(int64_t rows, int64_t columns, int64_t inner, float alpha, Rows a, Rows b, const float *keep,
              float *c, int64_t stride_c);

// t[d][j] = k[j][d]: `keys` rows of `dim` floats, stored as [dim][keys].
void transpose(const float *k, int64_t keys, int64_t dim, float *t);

}  // namespace flashattn::ladder
