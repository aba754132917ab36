// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/materialized.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/ladder/vector_clones.h"
#include "tools/cli/parallel.h"

namespace flashattn::cli {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Gets the machine's vector width, as a BLAS would.
// c[m][n] = alpha * sum_l a[m][l] * b[l][n]; four rows of c share each pass over b.
FLASHATTN_VECTOR_CLONES void multiply(int64_t rows, int64_t columns, int64_t inner, float alpha,
                                      const float *a, const float *b, float *c) {
  constexpr int64_t kRows = 4;
  for (int64_t m = 0; m < rows; m += kRows) {
    const int64_t count = std::min(kRows, rows - m);
    std::fill(c + m * columns, c + (m + count) * columns, 0.0F);
    if (count == kRows) {
      float *c0 = c + m * columns;
      float *c1 = c0 + columns;
      float *c2 = c1 + columns;
      float *c3 = c2 + columns;
      const float *a0 = a + m * inner;
      for (int64_t l = 0; l < inner; ++l) {
        const float *row = b + l * columns;
        const float x0 = alpha * a0[l];
        const float x1 = alpha * a0[inner + l];
        const float x2 = alpha * a0[2 * inner + l];
        const float x3 = alpha * a0[3 * inner + l];
        for (int64_t n = 0; n < columns; ++n) {
          const float y = row[n];
          c0[n] += x0 * y;
          c1[n] += x1 * y;
          c2[n] += x2 * y;
          c3[n] += x3 * y;
        }
      }
      continue;
    }
    for (int64_t r = m; r < m + count; ++r) {
      for (int64_t l = 0; l < inner; ++l) {
        const float x = alpha * a[r * inner + l];
        for (int64_t n = 0; n < columns; ++n) c[r * columns + n] += x * b[l * columns + n];
      }
    }
  }
}

// Softcap, ALiBi and bias of row (b, h, i) in place, then the mask.
void finish_scores(const Attention &a, int64_t b, int64_t h, int64_t i, float *row) {
  const int64_t n_k = a.k.seqlen;
  if (a.softcap != 0) {
    for (int64_t j = 0; j < n_k; ++j) row[j] = a.softcap * std::tanh(row[j] / a.softcap);
  }
  if (a.alibi.tensor != nullptr) {
    const auto slope = static_cast<float>(a.alibi.at(b, h));
    for (int64_t j = 0; j < n_k; ++j) row[j] -= slope * static_cast<float>(std::abs(a.diagonal(i) - j));
  }
  if (a.bias.tensor != nullptr) {
    const int64_t base = b * a.bias.stride_batch + h * a.bias.stride_head + i * a.bias.stride_q;
    const bool is_mask = a.bias.tensor->element() == Element::kU8;
    for (int64_t j = 0; j < n_k; ++j) {
      const float bias = a.bias.tensor->at(base + j * a.bias.stride_kv);
      row[j] = is_mask ? (bias != 0 ? row[j] : -kInfinity) : row[j] + bias;
    }
  }
  const auto [first, last] = a.visible(i);
  std::fill(row, row + std::min(first, n_k), -kInfinity);
  std::fill(row + std::min(last, n_k), row + n_k, -kInfinity);
}

// Softmax of the row in place; all zero when nothing is visible.
void softmax(float *row, int64_t n_k, const float *sink) {
  float largest = sink != nullptr ? *sink : -kInfinity;
  for (int64_t j = 0; j < n_k; ++j) largest = std::max(largest, row[j]);
  if (largest == -kInfinity) {
    std::fill(row, row + n_k, 0.0F);
    return;
  }
  float sum = sink != nullptr ? std::exp(*sink - largest) : 0.0F;
  for (int64_t j = 0; j < n_k; ++j) {
    row[j] = std::exp(row[j] - largest);
    sum += row[j];
  }
  for (int64_t j = 0; j < n_k; ++j) row[j] /= sum;
}

// Head (b, h) of a tensor as [seqlen, dim], or transposed as [dim, seqlen].
std::vector<float> gather(const View &view, int64_t b, int64_t h, bool transposed) {
  std::vector<float> out(static_cast<size_t>(view.seqlen * view.dim));
  for (int64_t s = 0; s < view.seqlen; ++s) {
    const int64_t row = view.row(b, s, h);
    for (int64_t d = 0; d < view.dim; ++d) {
      out[transposed ? d * view.seqlen + s : s * view.dim + d] = view.tensor->at(row + d);
    }
  }
  return out;
}

}  // namespace

Materialized::Materialized(const Attention &problem, int threads)
    : problem_(problem),
      threads_(threads),
      scores_(static_cast<size_t>(problem.q.batch * problem.q.heads * problem.q.seqlen * problem.k.seqlen)),
      o_(static_cast<size_t>(problem.q.batch * problem.q.heads * problem.q.seqlen * problem.v.dim)) {}

void Materialized::run() {
  const Attention &a = problem_;
  const int64_t n_q = a.q.seqlen;
  const int64_t n_k = a.k.seqlen;
  const float scale = a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<float>(a.q.dim));
  const int64_t tasks = a.q.batch * a.q.heads;
  const auto kv_head = [&](int64_t task) { return task % a.q.heads / (a.q.heads / a.k.heads); };

  parallel_for(tasks, threads_, [&](int64_t task) {
    const std::vector<float> q = gather(a.q, task / a.q.heads, task % a.q.heads, false);
    const std::vector<float> k = gather(a.k, task / a.q.heads, kv_head(task), true);
    multiply(n_q, n_k, a.q.dim, scale, q.data(), k.data(), scores_.data() + task * n_q * n_k);
  });
  parallel_for(tasks, threads_, [&](int64_t task) {
    const int64_t b = task / a.q.heads;
    const int64_t h = task % a.q.heads;
    const float sink = a.sinks.tensor != nullptr ? static_cast<float>(a.sinks.at(b, h)) : 0;
    for (int64_t i = 0; i < n_q; ++i) {
      float *row = scores_.data() + (task * n_q + i) * n_k;
      finish_scores(a, b, h, i, row);
      softmax(row, n_k, a.sinks.tensor != nullptr ? &sink : nullptr);
    }
  });
  parallel_for(tasks, threads_, [&](int64_t task) {
    const std::vector<float> v = gather(a.v, task / a.q.heads, kv_head(task), false);
    multiply(n_q, a.v.dim, n_k, 1.0F, scores_.data() + task * n_q * n_k, v.data(),
             o_.data() + task * n_q * a.v.dim);
  });
}

bool materialized_fits(const Attention &problem) {
  const double bytes = 4.0 * static_cast<double>(problem.q.batch * problem.q.heads) *
                       static_cast<double>(problem.q.seqlen) * static_cast<double>(problem.k.seqlen);
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  return bytes <= memory / 2;
}

}  // namespace flashattn::cli
