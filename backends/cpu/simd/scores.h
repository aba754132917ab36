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

// kKeys keys x kRows query rows as dot products along the dimension, K straight from its tensor. q has rows
// of round_up(dim, kLanes), zero behind dim.
template <int32_t kDtype, int32_t kKeys, int32_t kRows>
HWY_INLINE void dot_block(const char *const *k, const float *HWY_RESTRICT q, int32_t dim, float scale,
                          float *HWY_RESTRICT s) {
  const F32 f32;
  constexpr int32_t kSums = (kKeys * kRows + 3) / 4 * 4;
  Vector acc[kSums];
  for (Vector &a : acc) a = hn::Zero(f32);
  const int32_t stride = round_up(dim, kLanes);
  const auto step = [&](int32_t c, const auto &key_at) HWY_ATTR {
    Vector keys[kKeys];
    for (int32_t j = 0; j < kKeys; ++j) keys[j] = key_at(k[j]);
    for (int32_t r = 0; r < kRows; ++r) {
      const Vector query = hn::Load(f32, q + r * stride + c);
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
    for (int32_t r = 0; r < kRows; ++r) s[j * kPanel + r] = sums[j * kRows + r];
  }
}

// As score_panel.
template <int32_t kDtype, int32_t kRows>
HWY_NOINLINE void dot_panel(const char *const *k, int32_t n, const float *q, int32_t dim, float scale,
                            Ahead *ahead, float *s) {
  // Accumulators for 16 registers; a single row has its one operand from memory.
  constexpr int32_t kKeys = kRows == 1 ? 8 : 12 / kRows;
  static_assert(kKeys <= kKeyPad);
  for (int32_t j = 0; j < n; j += kKeys) {
    ahead->fetch(kKeys);
    dot_block<kDtype, kKeys, kRows>(k + j, q, dim, scale, s + static_cast<int64_t>(j) * kPanel);
  }
}

}  // namespace flashattn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
