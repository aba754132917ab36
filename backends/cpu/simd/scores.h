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

// All n keys; k holds where each key's f32 row lies.
template <int32_t kVectors>
HWY_INLINE void score_panel(const float *const *k, int32_t n, const float *q, int32_t dim, float scale,
                            float *s) {
  int32_t j = 0;
  for (; j + kKeyRows <= n; j += kKeyRows) {
    score_block<kKeyRows, kVectors>(k + j, q, dim, scale, s + static_cast<int64_t>(j) * kPanel);
  }
  if (j < n) {
    with_count<kKeyRows - 1>(n - j, [&](auto rows) HWY_ATTR {
      score_block<decltype(rows)::value, kVectors>(k + j, q, dim, scale,
                                                   s + static_cast<int64_t>(j) * kPanel);
    });
  }
}

// kKeys keys x kRows query rows as dot products along the dimension, K straight from its tensor. q has rows
// of round_up(dim, kLanes), zero behind dim.
template <int32_t kDtype, int32_t kKeys, int32_t kRows>
HWY_INLINE void dot_block(const char *const *k, const float *HWY_RESTRICT q, int32_t dim, float scale,
                          float *HWY_RESTRICT s) {
  const F32 f32;
  Vector acc[kKeys][kRows];
  for (auto &row : acc) {
    for (Vector &a : row) a = hn::Zero(f32);
  }
  const int32_t stride = round_up(dim, kLanes);
  int32_t c = 0;
  for (; c + kLanes <= dim; c += kLanes) {
    for (int32_t j = 0; j < kKeys; ++j) {
      const Vector key = load<kDtype>(k[j], c);
      for (int32_t r = 0; r < kRows; ++r)
        acc[j][r] = hn::MulAdd(key, hn::Load(f32, q + r * stride + c), acc[j][r]);
    }
  }
  if (c < dim) {
    for (int32_t j = 0; j < kKeys; ++j) {
      const Vector key = load_part<kDtype>(k[j], c, dim - c);
      for (int32_t r = 0; r < kRows; ++r)
        acc[j][r] = hn::MulAdd(key, hn::Load(f32, q + r * stride + c), acc[j][r]);
    }
  }
  for (int32_t j = 0; j < kKeys; ++j) {
    for (int32_t r = 0; r < kRows; ++r) {
      s[j * kPanel + r] = scale * hn::GetLane(hn::SumOfLanes(f32, acc[j][r]));
    }
  }
}

// All n keys, as score_panel. q has rows of round_up(dim, kLanes).
template <int32_t kDtype, int32_t kRows>
HWY_INLINE void dot_panel(const char *const *k, int32_t n, const float *q, int32_t dim, float scale,
                          const Ahead &ahead, float *s) {
  constexpr int32_t kKeys = 8 / kRows;
  int32_t j = 0;
  for (; j + kKeys <= n; j += kKeys) {
    for (int32_t t = 0; t < kKeys; ++t) ahead.fetch(j + t);
    dot_block<kDtype, kKeys, kRows>(k + j, q, dim, scale, s + static_cast<int64_t>(j) * kPanel);
  }
  for (; j < n; ++j) {
    ahead.fetch(j);
    dot_block<kDtype, 1, kRows>(k + j, q, dim, scale, s + static_cast<int64_t>(j) * kPanel);
  }
}

}  // namespace flashattn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
