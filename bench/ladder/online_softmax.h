// SPDX-License-Identifier: Apache-2.0
// The online softmax of one row, derived in docs/online-softmax.md (after Milakov & Gimelshein 2018, section 3).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace flashattn::ladder {

// What is known of a row after some of its scores s_j:
//   m = max s_j,   d = sum exp(s_j - m),   and, kept by the caller, o = sum exp(s_j - m) V_j.
struct RowState {
  float m = -std::numeric_limits<float>::infinity();
  float d = 0;
};

// exp(m - to), 0 for the state of no score, where m - to may be -inf - -inf.
inline float rescale(float m, float to) {
  return m == -std::numeric_limits<float>::infinity() ? 0.0F : std::exp(m - to);
}

// Takes n more scores in: s becomes exp(s - m') and the state (m', d'). Returns exp(m - m'), by which the o so far
// is to be multiplied before sum_j s_j V_j is added.
inline float absorb(float *s, int64_t n, RowState *state) {
  float m = state->m;
  for (int64_t j = 0; j < n; ++j) m = s[j] > m ? s[j] : m;
  const float keep = rescale(state->m, m);
  float d = state->d * keep;
  for (int64_t j = 0; j < n; ++j) {
    s[j] = rescale(s[j], m);
    d += s[j];
  }
  *state = {m, d};
  return keep;
}

// The state of two disjoint sets of scores. keep_a and keep_b are what their o is to be multiplied by.
inline RowState merge(const RowState &a, const RowState &b, float *keep_a, float *keep_b) {
  const float m = a.m > b.m ? a.m : b.m;
  *keep_a = rescale(a.m, m);
  *keep_b = rescale(b.m, m);
  return {m, a.d * *keep_a + b.d * *keep_b};
}

// ln sum exp(s_j).
inline float lse(const RowState &state) {
  return state.m + std::log(state.d);
}

}  // namespace flashattn::ladder
