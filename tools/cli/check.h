// SPDX-License-Identifier: Apache-2.0
// Results against the tool's own float64 attention, by the library's accuracy contract.
#pragma once

#include "tools/cli/attention.h"

namespace flashattn::cli {

// |O error| <= 2 * (largest |error| of float32 attention) + 1 ulp of O's type at that magnitude;
// |LSE error| <= 1e-5 * max(1, |LSE|).
struct CheckResult {
  double o_error = 0;            // largest |O - oracle|; infinite where only one of them is NaN or infinite
  double o_reference_error = 0;  // the same of float32 attention
  double lse_error = 0;
  bool o_ok = true;
  bool lse_ok = true;

  bool ok() const { return o_ok && lse_ok; }
};

// o is ordered as Q (layout), lse is [batch, heads, n_q].
CheckResult check(const Attention &problem, Layout layout, const Tensor &o, const Tensor &lse, int threads);

}  // namespace flashattn::cli
