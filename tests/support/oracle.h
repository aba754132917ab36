// SPDX-License-Identifier: Apache-2.0
// Attention straight from the semantics of flashattn.h in float64, and how far from it a result may be.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/attention_case.h"
#include "tests/support/contents.h"

namespace flashattn::test {

// What is known of one row. Rows that see no key give zeros exactly, and rows that see one key and no sink
// give its V.
enum RowKind : uint8_t { kUnchecked, kNoKey, kOneKey, kManyKeys };

struct Expected {
  int64_t n_q = 0, heads = 0, dim_v = 0;
  std::vector<double> o;      // [batch, heads, n_q, dim_v]
  std::vector<double> lse;    // [batch, heads, n_q]
  std::vector<RowKind> kind;  // [batch, heads, n_q]; kUnchecked rows hold nothing (see Case::verify_every)

  // The accuracy rule: |O error| <= 2 * reference_error + 1 ulp of the output dtype. The reference computes
  // scores and softmax in f32, rounds P to the dtype of V and sums P V in f32; reference_error is the largest
  // of its errors over the whole case. On tiny cases it can be zero by luck, so it is taken no smaller than
  // what a rounding of every product and every sum gives on average in the worst element: the root sum of
  // squares over j of
  //     p_j v_j (u_P / sqrt(3) + u_32 (3 + scale sum_d |q_d k_jd|))   and   u_32 sum_{i <= j} p_i v_i,
  // where u is the unit roundoff, and, since all p of a row share the rounding of m, which the division takes out again
  // unless the sink is m:
  //     |o| u_32 (m - max_j s_j).
  double reference_error = 0;

  // |LSE error| <= max(1e-5 * max(1, |LSE|), 2 * score_error): f32 cannot hold a score better than to
  // score_error = u_32 (1 + scale sum_d |q_d k_jd|) of the worst key of the row, which matters when ALiBi,
  // bias or softcap bring large scores back near zero.
  std::vector<double> score_error;  // [batch, heads, n_q]

  int64_t row(int64_t b, int64_t h, int64_t i) const { return (b * heads + h) * n_q + i; }
};

Expected oracle(const Case &c, const Contents &contents);

}  // namespace flashattn::test
