// SPDX-License-Identifier: Apache-2.0
// From the caller's problem to the one backends see.
#pragma once

#include "src/status.h"

namespace flashattn {

// No count a problem implies - output elements, K/V elements, page slots, rows times heads - exceeds this
// many, so that 256 splits of f32 partial results still fit int64 bytes.
inline constexpr int64_t kMaxElements = int64_t{1} << 52;

// Reads, checks and normalises. In the result every default is resolved (dtype_o, head_dim_v, softmax_scale);
// causal has folded window_right to 0; a window open on both sides is no window; bytes of `kernel` after its
// end are zero. Problems that mean the same thus mostly have the same bytes.
Status normalise_problem(const flashattn_problem_t *source, flashattn_problem_t *problem);

// 2 * batch * heads * seqlen_q * seqlen_kv * 4 bytes at the maxima, saturated: what plan_info reports.
uint64_t materialized_bytes(const flashattn_problem_t &problem);

}  // namespace flashattn
