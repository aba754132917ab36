// SPDX-License-Identifier: Apache-2.0
// Q, K and V from their tensors into the order the microkernels read, in f32.
#pragma once

#include "backends/cpu/simd/blocking.h"

HWY_BEFORE_NAMESPACE();
namespace flashattn::cpu::HWY_NAMESPACE {

HWY_INLINE const char *q_at(const Tile &tile, int32_t r) {
  return static_cast<const char *>(
      q_row(*tile.shape, *tile.call, tile.sequence, query_of(tile, r), head_of(tile, r)));
}

// Per KV head panels of [dim][kPanel]; rows behind the last are zero. row is scratch for one row.
HWY_NOINLINE inline void pack_queries(const Tile &tile, float *row, float *q) {
  const int32_t dim = tile.shape->dim;
  const int32_t panel_rows = round_up(tile.rows, kPanel);
  std::fill_n(q, static_cast<int64_t>(tile.heads) * panel_rows * dim, 0.0F);
  with_dtype(tile.shape->dtype_q, [&](auto dtype) HWY_ATTR {
    for (int32_t r = 0; r < tile.heads * tile.rows; ++r) {
      const int32_t lane = r / tile.rows * panel_rows + r % tile.rows;
      float *column = q + static_cast<int64_t>(lane / kPanel * kPanel) * dim + lane % kPanel;
      load_row<decltype(dtype)::value>(q_at(tile, r), dim, row);
      for (int32_t c = 0; c < dim; ++c) column[static_cast<int64_t>(c) * kPanel] = row[c];
    }
  });
}

// Rows of round_up(dim, kLanes), zero behind dim.
HWY_NOINLINE inline void copy_queries(const Tile &tile, float *q) {
  const int32_t dim = tile.shape->dim;
  with_dtype(tile.shape->dtype_q, [&](auto dtype) HWY_ATTR {
    for (int32_t r = 0; r < tile.heads * tile.rows; ++r) {
      load_row<decltype(dtype)::value>(q_at(tile, r), dim,
                                       q + static_cast<int64_t>(r) * round_up(dim, kLanes));
    }
  });
}

// Copies a block of K to k and points rows there.
template <int32_t kDtype>
HWY_INLINE void pack_keys(int32_t n, int32_t dim, const char **rows, float *k) {
  for (int32_t j = 0; j < n; ++j) {
    float *row = k + static_cast<int64_t>(j) * round_up(dim, kLanes);
    load_row<kDtype>(rows[j], dim, row);
    rows[j] = reinterpret_cast<const char *>(row);
  }
}

// Panels of [n][kValuePanel], the last one as narrow as whole vectors allow.
template <int32_t kDtype>
HWY_INLINE void pack_values(int32_t n, int32_t dim_v, const char *const *rows, float *v) {
  const F32 f32;
  const int32_t whole = dim_v / kValuePanel * kValuePanel;
  const int32_t rest = round_up(dim_v - whole, kLanes);  // width of the narrow panel
  for (int32_t j = 0; j < n; ++j) {
    float *out = v + static_cast<int64_t>(j) * kValuePanel;
    for (int32_t c = 0; c < whole; c += kValuePanel) {
      for (int32_t w = 0; w < kValuePanel; w += kLanes) hn::Store(load<kDtype>(rows[j], c + w), f32, out + w);
      out += static_cast<int64_t>(n) * kValuePanel;
    }
    out = v + static_cast<int64_t>(whole) * n + static_cast<int64_t>(j) * rest;
    for (int32_t c = whole; c < dim_v; c += kLanes) {
      const Vector columns =
          c + kLanes <= dim_v ? load<kDtype>(rows[j], c) : load_part<kDtype>(rows[j], c, dim_v - c);
      hn::Store(columns, f32, out + (c - whole));
    }
  }
}

}  // namespace flashattn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
