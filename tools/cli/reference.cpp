// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/reference.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "tools/cli/parallel.h"

namespace flashattn::cli {

namespace {

// Q, K and V as float, in their own order.
struct Floats {
  explicit Floats(const Attention &a)
      : q(to_floats(*a.q.tensor)), k(to_floats(*a.k.tensor)), v(to_floats(*a.v.tensor)) {}
  std::vector<float> q, k, v;
};

// Row (b, i, h) of O, and its LSE, by the definition in flashattn.h. scores has room for n_k numbers.
template <class Real>
void attend_row(const Attention &a, const Floats &floats, int64_t b, int64_t i, int64_t h,
                std::vector<Real> &scores, Real *o, Real *lse) {
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
  const int64_t kv_head = h / (a.q.heads / a.k.heads);
  const Real scale = a.scale != 0 ? static_cast<Real>(a.scale) : 1 / std::sqrt(static_cast<Real>(a.q.dim));
  const auto [first, last] = a.visible(i);
  const float *q = floats.q.data() + a.q.row(b, i, h);

  Real largest = -kInfinity;
  bool any_nan = false;
  for (int64_t j = first; j < last; ++j) {
    const float *k = floats.k.data() + a.k.row(b, j, kv_head);
    Real score = 0;
    for (int64_t d = 0; d < a.q.dim; ++d) score += static_cast<Real>(q[d]) * static_cast<Real>(k[d]);
    score *= scale;
    if (a.softcap != 0)
      score = static_cast<Real>(a.softcap) * std::tanh(score / static_cast<Real>(a.softcap));
    if (a.alibi.tensor != nullptr) {
      score -= static_cast<Real>(a.alibi.at(b, h)) * static_cast<Real>(std::abs(a.diagonal(i) - j));
    }
    if (a.bias.tensor != nullptr) {
      const float bias = a.bias.tensor->at(b * a.bias.stride_batch + h * a.bias.stride_head +
                                           i * a.bias.stride_q + j * a.bias.stride_kv);
      if (a.bias.tensor->element() == Element::kU8) {
        if (bias == 0) score = -kInfinity;
      } else if (bias == -std::numeric_limits<float>::infinity()) {
        score = -kInfinity;  // hides the key whatever its score is
      } else {
        score += bias;
      }
    }
    scores[j] = score;
    any_nan |= std::isnan(score);
    if (score > largest) largest = score;
  }
  if (a.sinks.tensor != nullptr) largest = std::max(largest, static_cast<Real>(a.sinks.at(b, h)));

  for (int64_t d = 0; d < a.v.dim; ++d) o[d] = 0;
  if (any_nan) {
    for (int64_t d = 0; d < a.v.dim; ++d) o[d] = std::numeric_limits<Real>::quiet_NaN();
    *lse = std::numeric_limits<Real>::quiet_NaN();
    return;
  }
  if (largest == -kInfinity) {  // sees no key
    *lse = -kInfinity;
    return;
  }
  Real sum = a.sinks.tensor != nullptr ? std::exp(static_cast<Real>(a.sinks.at(b, h)) - largest) : Real{0};
  for (int64_t j = first; j < last; ++j) sum += std::exp(scores[j] - largest);
  *lse = largest + std::log(sum);
  for (int64_t j = first; j < last; ++j) {
    if (scores[j] == -kInfinity) continue;  // a hidden key's V is never read
    Real p = std::exp(scores[j] - largest) / sum;
    if constexpr (std::is_same_v<Real, float>) p = round_to(a.v.tensor->element(), p);
    const float *v = floats.v.data() + a.v.row(b, j, kv_head);
    for (int64_t d = 0; d < a.v.dim; ++d) o[d] += p * static_cast<Real>(v[d]);
  }
}

template <class Real>
ReferenceResult<Real> attention(const Attention &a, int threads) {
  ReferenceResult<Real> result;
  result.o.resize(static_cast<size_t>(a.q.batch * a.q.seqlen * a.q.heads * a.v.dim));
  result.lse.resize(static_cast<size_t>(a.q.batch * a.q.heads * a.q.seqlen));
  const Floats floats(a);
  parallel_for(a.q.batch * a.q.heads, threads, [&](int64_t index) {
    const int64_t b = index / a.q.heads;
    const int64_t h = index % a.q.heads;
    std::vector<Real> scores(static_cast<size_t>(a.k.seqlen));
    for (int64_t i = 0; i < a.q.seqlen; ++i) {
      attend_row(a, floats, b, i, h, scores,
                 result.o.data() + ((b * a.q.seqlen + i) * a.q.heads + h) * a.v.dim,
                 result.lse.data() + index * a.q.seqlen + i);
    }
  });
  return result;
}

}  // namespace

ReferenceResult<double> attention_float64(const Attention &problem, int threads) {
  return attention<double>(problem, threads);
}

ReferenceResult<float> attention_float32(const Attention &problem, int threads) {
  return attention<float>(problem, threads);
}

}  // namespace flashattn::cli
