// SPDX-License-Identifier: Apache-2.0
// The sequences of a call: where their rows lie and how many there are, whatever the layout.
#pragma once

#include <cstdint>

#include "backends/cpu/shape.h"
#include "flashattn.h"
#include "src/status.h"

namespace flashattn::cpu {

struct Sequence {
  int64_t index;         // in the batch
  int64_t first_q;       // ragged: first row in the buffer of Q, O and LSE; dense: 0
  int64_t first_kv;      // ragged: first row in the buffer of K and V; else 0
  const int32_t *pages;  // paged: page of each page_size slots; nullptr without a table
  int64_t n_q;
  int64_t n_k;
  int64_t diagonal;  // d = n_k - n_q + diag_offset
};

// Sequence b of a call that check_sequences accepted.
Sequence sequence_at(const Shape &shape, const flashattn_call_t &call, int64_t b);

// Reads every length and page index the call will use. INVALID_DATA names the array, index, value and rule.
Status check_sequences(const Shape &shape, const flashattn_problem_t &problem, const flashattn_call_t &call);

// First element of a row. i and j count within the sequence; j < n_k, i < n_q.
const void *q_row(const Shape &shape, const flashattn_call_t &call, const Sequence &sequence, int64_t i,
                  int32_t head);
void *o_row(const Shape &shape, const flashattn_call_t &call, const Sequence &sequence, int64_t i,
            int32_t head);
float *lse_element(const Shape &shape, const flashattn_call_t &call, const Sequence &sequence, int64_t i,
                   int32_t head);
// tensor is call.k or call.v.
const void *kv_row(const Shape &shape, const flashattn_tensor_t &tensor, const Sequence &sequence, int64_t j,
                   int32_t head);

// n rows from j on, j + n <= n_k.
void kv_rows(const Shape &shape, const flashattn_tensor_t &tensor, const Sequence &sequence, int32_t head,
             int64_t j, int32_t n, const char **rows);

// The ALiBi slope or sink of a query head.
float per_head(const flashattn_per_head_t &values, const Sequence &sequence, int32_t head);
// Bias of keys j .. j + n - 1 for query i in f32, to out[0], out[stride], ...; a boolean mask gives 0 or
// -inf.
void bias_row(const Shape &shape, const flashattn_bias_t &bias, const Sequence &sequence, int32_t head,
              int64_t i, int64_t j, int32_t n, float *out, int64_t stride);

}  // namespace flashattn::cpu
