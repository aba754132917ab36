// SPDX-License-Identifier: Apache-2.0
// Included by one file per target.
#pragma once

#include "backends/cpu/simd/exp.h"
#include "backends/cpu/simd/fwd_simd.h"

HWY_BEFORE_NAMESPACE();
namespace flashattn::cpu::HWY_NAMESPACE {

template <typename F>
HWY_INLINE void probe_map(const float *x, int32_t n, float *out, const F &f) {
  alignas(64) float lanes[kLanes];
  for (int32_t i = 0; i < n; i += kLanes) {
    for (int32_t lane = 0; lane < kLanes; ++lane) lanes[lane] = x[i + lane < n ? i + lane : n - 1];
    hn::Store(f(hn::Load(F32(), lanes)), F32(), lanes);
    for (int32_t lane = 0; lane < kLanes && i + lane < n; ++lane) out[i + lane] = lanes[lane];
  }
}

HWY_INLINE void probe_exp(const float *x, int32_t n, float *out) {
  probe_map(x, n, out, [](Vector v) HWY_ATTR { return exp_negative(v); });
}

HWY_INLINE void probe_tanh(const float *x, int32_t n, float *out) {
  probe_map(x, n, out, [](Vector v) HWY_ATTR { return tanh(v); });
}

HWY_INLINE void probe_load(int32_t dtype, const void *source, int32_t n, float *out) {
  with_dtype(dtype, [&](auto type) HWY_ATTR {
    load_row<decltype(type)::value>(static_cast<const char *>(source), n, out);
  });
}

}  // namespace flashattn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
