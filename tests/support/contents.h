// SPDX-License-Identifier: Apache-2.0
// What the tensors of a case hold, apart from how they lie in memory. Values are already rounded to their
// dtypes.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/attention_case.h"
#include "tests/support/random.h"

namespace flashattn::test {

// [batch, seqlen, heads, dim]; a broadcast dimension has stride 0.
struct Rows {
  int64_t dim = 0;
  int64_t stride_batch = 0;
  int64_t stride_seq = 0;
  int64_t stride_head = 0;
  std::vector<float> data;

  float *row(int64_t b, int64_t s, int64_t h) {
    return data.data() + b * stride_batch + s * stride_seq + h * stride_head;
  }
  const float *row(int64_t b, int64_t s, int64_t h) const {
    return data.data() + b * stride_batch + s * stride_seq + h * stride_head;
  }
};

// [batch, heads_q, n_q, n_k].
struct BiasValues {
  int64_t stride_batch = 0;
  int64_t stride_head = 0;
  int64_t stride_q = 0;
  int64_t stride_kv = 0;
  std::vector<float> data;

  float at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return data[b * stride_batch + h * stride_head + i * stride_q + j * stride_kv];
  }
};

struct Contents {
  Rows q, k, v;
  BiasValues bias;
  std::vector<float> slopes;  // [batch, heads_q], also when the case has them per head only
  std::vector<float> sinks;
};

// Draws everything from rng, then applies c.edit.
Contents make_contents(const Case &c, Rng rng);

}  // namespace flashattn::test
