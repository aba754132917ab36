// SPDX-License-Identifier: Apache-2.0
// One head of random Q, K, V and its attention in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "bench/ladder/ladder.h"

namespace flashattn::ladder::testing {

struct Head {
  int64_t n;
  int64_t dim;
  bool causal;
  std::vector<float> q, k, v;

  // Normal about `mean`.
  Head(int64_t rows, int64_t columns, bool is_causal, float mean = 0.3F)
      : n(rows), dim(columns), causal(is_causal), q(size()), k(size()), v(size()) {
    static std::mt19937 random{std::random_device{}()};
    std::normal_distribution<float> normal(mean, 1);
    for (auto *tensor : {&q, &k, &v})
      std::generate(tensor->begin(), tensor->end(), [&] { return normal(random); });
  }

  size_t size() const { return static_cast<size_t>(n * dim); }
  float scale() const { return 1 / std::sqrt(static_cast<float>(dim)); }
  Problem problem(std::vector<float> *o) const {
    o->assign(size(), std::nanf(""));
    return {n, dim, scale(), causal, q.data(), k.data(), v.data(), o->data()};
  }
};

// From the definition. lse may be null.
inline std::vector<double> oracle(const Head &h, std::vector<double> *lse = nullptr) {
  std::vector<double> o(h.size());
  std::vector<double> s(static_cast<size_t>(h.n));
  for (int64_t i = 0; i < h.n; ++i) {
    const int64_t seen = h.causal ? i + 1 : h.n;
    double m = -INFINITY;
    for (int64_t j = 0; j < seen; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < h.dim; ++d) dot += static_cast<double>(h.q[i * h.dim + d]) * h.k[j * h.dim + d];
      s[j] = dot * h.scale();
      m = std::max(m, s[j]);
    }
    double sum = 0;
    for (int64_t j = 0; j < seen; ++j) sum += std::exp(s[j] - m);
    for (int64_t j = 0; j < seen; ++j) {
      for (int64_t d = 0; d < h.dim; ++d) o[i * h.dim + d] += std::exp(s[j] - m) / sum * h.v[j * h.dim + d];
    }
    if (lse != nullptr) lse->push_back(m + std::log(sum));
  }
  return o;
}

// The largest difference; NaN anywhere is infinity.
inline double difference(const std::vector<float> &o, const std::vector<double> &expected) {
  double largest = 0;
  for (size_t i = 0; i < o.size(); ++i) {
    const double d = std::fabs(o[i] - expected[i]);
    largest = std::isnan(d) ? INFINITY : std::max(largest, d);
  }
  return largest;
}

}  // namespace flashattn::ladder::testing
