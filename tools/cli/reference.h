// SPDX-License-Identifier: Apache-2.0
// What the library is compared with: attention by its definition, one row of scores at a time.
#pragma once

#include <vector>

#include "tools/cli/attention.h"

namespace flashattn::cli {

// O and LSE in the working precision; o is [batch, n_q, heads, head_dim_v], lse [batch, heads, n_q].
template <class Real>
struct ReferenceResult {
  std::vector<Real> o;
  std::vector<Real> lse;
};

// The oracle: everything in float64.
ReferenceResult<double> attention_float64(const Attention &problem, int threads);

// The yardstick for accuracy: scores and softmax in float32, probabilities rounded to V's type, P V in
// float32.
ReferenceResult<float> attention_float32(const Attention &problem, int threads);

}  // namespace flashattn::cli
