// SPDX-License-Identifier: Apache-2.0
// One step of the online softmax for a panel of rows.
#pragma once

#include "backends/cpu/simd/blocking.h"
#include "backends/cpu/simd/exp.h"

HWY_BEFORE_NAMESPACE();
namespace flashattn::cpu::HWY_NAMESPACE {

// Turns n keys' scores, stride_s floats per key, into exp(s - m) with the new maximum m, and updates max and
// sum. keep is what the o accumulated so far is to be multiplied by, exp(m_old - m). While a row has seen
// nothing but -inf its exponents are taken against 0, so that nothing becomes -inf - -inf.
template <int32_t kVectors>
HWY_INLINE void softmax_step(int32_t n, float *HWY_RESTRICT s, int32_t stride_s, float *HWY_RESTRICT max,
                             float *HWY_RESTRICT sum, float *HWY_RESTRICT keep) {
  const F32 f32;
  const Vector minus_inf = hn::Set(f32, -HUGE_VALF);
  Vector m[kVectors];
  Vector shift[kVectors];
  Vector added[kVectors];
  for (int32_t v = 0; v < kVectors; ++v) m[v] = hn::Load(f32, max + v * kLanes);
  for (int32_t j = 0; j < n; ++j) {
    const float *row = s + static_cast<int64_t>(j) * stride_s;
    // A NaN score may or may not survive this; it always survives in the sum.
    for (int32_t v = 0; v < kVectors; ++v) m[v] = hn::Max(m[v], hn::Load(f32, row + v * kLanes));
  }
  for (int32_t v = 0; v < kVectors; ++v) {
    shift[v] = hn::IfThenZeroElse(hn::Eq(m[v], minus_inf), m[v]);
    added[v] = hn::Zero(f32);
  }
  for (int32_t j = 0; j < n; ++j) {
    float *row = s + static_cast<int64_t>(j) * stride_s;
    for (int32_t v = 0; v < kVectors; ++v) {
      const Vector p = exp_negative(hn::Sub(hn::Load(f32, row + v * kLanes), shift[v]));
      hn::Store(p, f32, row + v * kLanes);
      added[v] = hn::Add(added[v], p);
    }
  }
  for (int32_t v = 0; v < kVectors; ++v) {
    const Vector factor = exp_negative(hn::Sub(hn::Load(f32, max + v * kLanes), shift[v]));
    hn::Store(factor, f32, keep + v * kLanes);
    hn::Store(hn::MulAdd(hn::Load(f32, sum + v * kLanes), factor, added[v]), f32, sum + v * kLanes);
    hn::Store(m[v], f32, max + v * kLanes);
  }
}

}  // namespace flashattn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
