// SPDX-License-Identifier: Apache-2.0
// Attention straight from the semantics of flashattn.h in float64, and how far from it a result may be.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/attention_case.h"
#include "tests/support/contents.h"

namespace flashattn::test {

struct Expected {
  int64_t n_q = 0, heads = 0, dim_v = 0;
  std::vector<double> o;         // [batch, heads, n_q, dim_v]
  std::vector<double> lse;       // [batch, heads, n_q]
  std::vector<uint8_t> checked;  // [batch, heads, n_q]: rows that hold values (see Case::verify_every)

  // The accuracy rule: |O error| <= 2 * reference_error + 1 ulp of the output dtype. The reference computes scores
  // and softmax in f32, rounds P to the dtype of V and sums P V in f32; reference_error is the largest of its errors
  // over the whole case. On tiny cases it can be zero by luck, so it is taken no smaller than the root sum of squares
  // of one rounding per term, p_j v_j (u_P + u_32 (1 + sum_d |q_d k_jd| scale)), of the worst element.
  double reference_error = 0;

  int64_t row(int64_t b, int64_t h, int64_t i) const { return (b * heads + h) * n_q + i; }
};

Expected oracle(const Case &c, const Contents &contents);

}  // namespace flashattn::test
