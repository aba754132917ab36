// SPDX-License-Identifier: Apache-2.0
#include "tests/support/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/dtype.h"

namespace flashattn::test {
namespace {

// Whether query i sees key j of sequence b, and nothing but the semantics: no tile, no bound, no shortcut.
bool visible(const Case &c, const Contents &contents, int64_t b, int64_t h, int64_t i, int64_t j) {
  const int64_t diagonal = i + c.diagonal(static_cast<int32_t>(b));
  if (c.causal != 0 && j > diagonal) return false;
  if (c.window && c.left >= 0 && j < diagonal - c.left) return false;
  if (c.window && c.right >= 0 && j > diagonal + c.right) return false;
  if (c.bias.dtype == 0) return true;
  const float bias = contents.bias.at(b, h, i, j);
  return c.bias.dtype == FLASHATTN_DTYPE_U8 ? bias != 0 : bias != -std::numeric_limits<float>::infinity();
}

// The score of one pair in the arithmetic of Real.
template <typename Real>
Real score(const Case &c, const Contents &contents, int64_t b, int64_t h, int64_t i, int64_t j,
           const float *q, const float *k) {
  Real dot = 0;
  for (int32_t d = 0; d < c.dim; ++d) dot += static_cast<Real>(q[d]) * static_cast<Real>(k[d]);
  const Real scale = c.scale != 0 ? static_cast<Real>(c.scale) : 1 / std::sqrt(static_cast<Real>(c.dim));
  Real s = scale * dot;
  if (c.softcap != 0) s = static_cast<Real>(c.softcap) * std::tanh(s / static_cast<Real>(c.softcap));
  if (c.alibi != PerHead::kOff) {
    const int64_t distance = std::abs(i + c.diagonal(static_cast<int32_t>(b)) - j);
    s -= static_cast<Real>(contents.slopes[b * c.heads_q + h]) * static_cast<Real>(distance);
  }
  if (c.bias.dtype != 0 && c.bias.dtype != FLASHATTN_DTYPE_U8)
    s += static_cast<Real>(contents.bias.at(b, h, i, j));
  return s;
}

// softmax over scores with an optional sink; returns ln of the denominator.
template <typename Real>
Real softmax(std::vector<Real> *scores, bool has_sink, float sink) {
  Real largest = has_sink ? static_cast<Real>(sink) : -std::numeric_limits<Real>::infinity();
  for (const Real s : *scores) largest = s > largest || std::isnan(s) ? s : largest;
  if (std::isinf(largest) && largest < 0) {  // no key and no sink
    std::fill(scores->begin(), scores->end(), Real{0});
    return largest;
  }
  Real sum = has_sink ? std::exp(static_cast<Real>(sink) - largest) : 0;
  for (Real &s : *scores) sum += s = std::exp(s - largest);
  for (Real &s : *scores) s /= sum;
  return largest + std::log(sum);
}

}  // namespace

Expected oracle(const Case &c, const Contents &contents) {
  Expected expected;
  expected.n_q = c.max_n_q();
  expected.heads = c.heads_q;
  expected.dim_v = c.dim_v;
  const int64_t rows = expected.n_q * c.heads_q * c.batch();
  expected.o.assign(rows * c.dim_v, 0.0);
  expected.lse.assign(rows, 0.0);
  expected.score_error.assign(rows, 0.0);
  expected.kind.assign(rows, kUnchecked);

  // P has one rounding per term, uniform within half an ulp; a score has as many as the head dimension.
  const double u_p = c.dtype_kv == FLASHATTN_DTYPE_F32 ? 0 : unit_roundoff(c.dtype_kv) / std::sqrt(3.0);
  const double u_32 = unit_roundoff(FLASHATTN_DTYPE_F32);
  const double scale = c.scale != 0 ? c.scale : 1 / std::sqrt(static_cast<double>(c.dim));
  std::vector<int64_t> keys;
  std::vector<double> p, rounding, floor_squares(c.dim_v);
  std::vector<float> p_reference, o_reference(c.dim_v);
  int64_t count = 0;
  for (int32_t b = 0; b < c.batch(); ++b) {
    for (int32_t h = 0; h < c.heads_q; ++h) {
      const int32_t h_kv = h / (c.heads_q / c.heads_kv);
      const bool has_sink = c.sinks != PerHead::kOff;
      const float sink = has_sink ? contents.sinks[b * c.heads_q + h] : 0;
      for (int32_t i = 0; i < c.n_q[b]; ++i) {
        if (count++ % c.verify_every != 0) continue;
        const int64_t row = expected.row(b, h, i);
        const float *q = contents.q.row(b, i, h);
        keys.clear();
        p.clear();
        p_reference.clear();
        rounding.clear();
        for (int32_t j = 0; j < c.n_k[b]; ++j) {
          if (!visible(c, contents, b, h, i, j)) continue;
          const float *k = contents.k.row(b, j, h_kv);
          const double exact = score<double>(c, contents, b, h, i, j, q, k);
          // In f32 it is -inf, and a score of -inf hides its key.
          if (exact < -static_cast<double>(std::numeric_limits<float>::max())) continue;
          keys.push_back(j);
          p.push_back(exact);
          p_reference.push_back(score<float>(c, contents, b, h, i, j, q, k));
          double magnitude = 0;
          for (int32_t d = 0; d < c.dim; ++d) magnitude += std::fabs(static_cast<double>(q[d]) * k[d]);
          const double score_error = u_32 * (1 + std::fabs(scale) * magnitude);
          rounding.push_back(u_p + score_error + 2 * u_32);  // and those of exp and of p v
          expected.score_error[row] = std::max(expected.score_error[row], score_error);
        }
        const double below_sink =
            has_sink && !p.empty() ? std::max(0.0, sink - *std::max_element(p.begin(), p.end())) : 0;
        expected.kind[row] = keys.empty() ? kNoKey : keys.size() == 1 && !has_sink ? kOneKey : kManyKeys;
        expected.lse[row] = softmax(&p, has_sink, sink);
        softmax(&p_reference, has_sink, sink);

        double *o = &expected.o[row * c.dim_v];
        std::fill(o_reference.begin(), o_reference.end(), 0.0F);
        std::fill(floor_squares.begin(), floor_squares.end(), 0.0);
        for (size_t n = 0; n < keys.size(); ++n) {
          const float *v = contents.v.row(b, keys[n], h_kv);
          const float p_rounded = round_to(c.dtype_kv, p_reference[n]);
          for (int32_t d = 0; d < c.dim_v; ++d) {
            o[d] += p[n] * v[d];
            o_reference[d] += p_rounded * v[d];
            const double product = p[n] * v[d] * rounding[n];
            const double sum = o[d] * u_32;
            floor_squares[d] += product * product + sum * sum;
          }
        }
        for (int32_t d = 0; d < c.dim_v; ++d) {
          const double floor = std::sqrt(floor_squares[d]) + std::fabs(o[d]) * u_32 * below_sink;
          const double error = std::max(std::fabs(o_reference[d] - o[d]), floor);
          if (std::isfinite(error)) expected.reference_error = std::max(expected.reference_error, error);
        }
      }
    }
  }
  return expected;
}

}  // namespace flashattn::test
