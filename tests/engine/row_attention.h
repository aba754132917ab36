// SPDX-License-Identifier: Apache-2.0
// What the test doubles of the plug-in have in common: Attention row by row, scores in f64, straight from the op.
#pragma once

#include <cstdint>

#include "bindings/ggml/operation.h"

namespace flashattn::ggml {

// V of one sequence and KV head.
class Values {
 public:
  Values(const Operation &op, int64_t sequence, int64_t head_kv);
  double at(int64_t key, int64_t dim) const;

 private:
  const Operation &op_;
  int64_t offset_;
};

// The part that the doubles differ in. Writes out[0 .. op.head_dim_v): the softmax of scores[0 .. op.num_keys), -inf
// where a key is hidden, over values; sink is -inf where there is none.
void attend_row(const Operation &op, const double *scores, const Values &values, double sink, float *out);

}  // namespace flashattn::ggml
