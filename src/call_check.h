// SPDX-License-Identifier: Apache-2.0
// A call against its problem, as far as the host can see without reading the memory its pointers name.
#pragma once

#include "src/status.h"

namespace flashattn {

// The sizes of a call within the maxima of a normalised problem; fields of other layouts zero. Resolves the
// bounds seqlen_q (ragged Q) and seqlen_kv (all but dense KV) from 0 to the problem's maxima.
Status check_call_sizes(const flashattn_problem_t &problem, flashattn_call_t *call);

// Reads a call into full size and checks all of it. Every pointer the problem declares is there (it may be
// NULL where nothing would be read through it) and no other is.
Status check_call(const flashattn_problem_t &problem, const flashattn_call_t *source, flashattn_call_t *call);

// Whether a checked call has no row of O to write.
bool writes_nothing(const flashattn_problem_t &problem, const flashattn_call_t &call);

}  // namespace flashattn
