// SPDX-License-Identifier: Apache-2.0
// What the test doubles of the plug-in have in common: Attention row by row, scores in f64, straight from the op.
#pragma once

#include "bindings/ggml/operation.h"

namespace flashattn::ggml {

// The part that the doubles differ in. Writes out[0 .. op.head_dim_v): the softmax of scores[0 .. op.num_keys), -inf
// where a key is hidden, over the rows of values, [op.num_keys, op.head_dim_v]; sink is -inf where there is none.
void attend_row(const Operation &op, const double *scores, const double *values, double sink, float *out);

}  // namespace flashattn::ggml
