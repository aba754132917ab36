// SPDX-License-Identifier: Apache-2.0
// S = scale K Q^T for one panel of rows and one block of keys.
#pragma once

#include "backends/cpu/simd/blocking.h"

HWY_BEFORE_NAMESPACE();
namespace flashattn::cpu::HWY_NAMESPACE {

// kRows keys x kVectors vectors of rows: an outer product per dimension. q is [dim][kPanel], s is
// [kRows][kPanel].
template <int32_t kRows, int32_t kVectors>
HWY_INLINE void score_block(const float *const *k, const float *HWY_RESTRICT q, int32_t dim, float scale,
                            float *HWY_RESTRICT s) {
  const F32 f32;
  Vector acc[kRows][kVectors];
  for (auto &row : acc) {
    for (Vector &a : row) a = hn::Zero(f32);
  }
  const float *rows[kRows];
  for (int32_t j = 0; j < kRows; ++j) rows[j] = k[j];
  for (int32_t c = 0; c < dim; ++c) {
    Vector lanes[kVectors];
    for (int32_t v = 0; v < kVectors; ++v) lanes[v] = hn::Load(f32, q + v * kLanes);
    for (int32_t j = 0; j < kRows; ++j) {
      const Vector element = hn::Set(f32, rows[j][c]);
      for (int32_t v = 0; v < kVectors; ++v) acc[j][v] = hn::MulAdd(element, lanes[v], acc[j][v]);
    }
    q += kPanel;
  }
  const Vector factor = hn::Set(f32, scale);
  for (int32_t j = 0; j < kRows; ++j) {
    for (int32_t v = 0; v < kVectors; ++v) {
      hn::Store(hn::Mul(acc[j][v], factor), f32, s + j * kPanel + v * kLanes);
    }
  }
}

// n keys and up to kKeyPad behind; k holds where each key's f32 row lies. Fetches rows_ahead rows per step.
template <int32_t kVectors>
HWY_NOINLINE void score_panel(const float *const *k, int32_t n, const float *q, int32_t dim, float scale,
                              int32_t rows_ahead, Ahead *ahead, float *s) {
  for (int32_t j = 0; j < n; j += kKeyRows) {
    ahead->fetch(rows_ahead);
    score_block<kKeyRows, kVectors>(k + j, q, dim, scale, s + static_cast<int64_t>(j) * kPanel);
  }
}

// kKeys keys x kRows query rows as dot products along the dimension, K straight from its tensor: scores of
// key j at s + j * stride_s. q has rows of round_up(dim, kLanes), zero behind dim.
template <int32_t kDtype, int32_t kKeys, int32_t kRows>
HWY_INLINE void dot_block(const RowsOfHeads &k, int32_t first_key, int32_t head, const float *HWY_RESTRICT q,
                          int32_t dim, float scale, float *HWY_RESTRICT s, int32_t stride_s) {
  const F32 f32;
  constexpr int32_t kSums = (kKeys * kRows + 3) / 4 * 4;
  Vector acc[kSums];
  for (Vector &a : acc) a = hn::Zero(f32);
  const char *rows[kKeys];
  for (int32_t j = 0; j < kKeys; ++j) rows[j] = k.at(first_key + j, head);
  const int32_t stride_q = round_up(dim, kLanes);
  const auto step = [&](int32_t c, const auto &key_at) HWY_ATTR {
    Vector keys[kKeys];
    for (int32_t j = 0; j < kKeys; ++j) keys[j] = key_at(rows[j]);
    for (int32_t r = 0; r < kRows; ++r) {
      const Vector query = hn::Load(f32, q + r * stride_q + c);
      for (int32_t j = 0; j < kKeys; ++j) acc[j * kRows + r] = hn::MulAdd(keys[j], query, acc[j * kRows + r]);
    }
  };
  int32_t c = 0;
  for (; c + kLanes <= dim; c += kLanes) {
    step(c, [c](const char *row) HWY_ATTR { return load<kDtype>(row, c); });
  }
  if (c < dim) {
    const int32_t rest = dim - c;
    step(c, [c, rest](const char *row) HWY_ATTR { return load_part<kDtype>(row, c, rest); });
  }
  alignas(16) float sums[kSums];
  const hn::FixedTag<float, 4> four;
  const auto factor = hn::Set(four, scale);
  for (int32_t t = 0; t < kSums; t += 4) {
    hn::Store(hn::Mul(sum_lanes(acc[t], acc[t + 1], acc[t + 2], acc[t + 3]), factor), four, sums + t);
  }
  for (int32_t j = 0; j < kKeys; ++j) {
    for (int32_t r = 0; r < kRows; ++r) s[j * stride_s + r] = sums[j * kRows + r];
  }
}

// All keys of the block, and up to kKeyPad behind, for kRows rows of each head: token by token, as most
// caches lie in memory. Row r of head h gets lane h * kRows + r. Fetches V beside.
template <int32_t kDtype, int32_t kRows>
HWY_NOINLINE void dot_panel(const RowsOfHeads &k, const RowsOfHeads &v, int32_t heads, const float *q,
                            int32_t dim, float scale, float *s, int32_t stride_s) {
  // Eight to twelve accumulators: enough for the latency of two pipes, few enough for 16 registers.
  constexpr int32_t kKeys = kRows <= 4 ? 8 / kRows / 2 * 2 : kRows <= 6 ? 2 : 1;
  static_assert(kKeys <= kKeyPad);
  const int64_t head_q = static_cast<int64_t>(kRows) * round_up(dim, kLanes);
  for (int32_t j = 0; j < k.n; j += kKeys) {
    for (int32_t h = 0; h < heads; ++h) {
      for (int32_t t = 0; t < kKeys; ++t) v.prefetch(j + t, h);
      dot_block<kDtype, kKeys, kRows>(k, j, h, q + h * head_q, dim, scale,
                                      s + static_cast<int64_t>(j) * stride_s + h * kRows, stride_s);
    }
  }
}

}  // namespace flashattn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
