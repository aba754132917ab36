// SPDX-License-Identifier: Apache-2.0
// The rungs with one size each; the fourth is in ladder.h.
#pragma once

#include "bench/ladder/ladder.h"

namespace flashattn::ladder {

int64_t naive_floats(int64_t n, int64_t dim, int threads);
void naive(const Problem &problem, int threads, float *memory);
int64_t blocked_floats(int64_t n, int64_t dim, int threads);
void blocked(const Problem &problem, int threads, float *memory);
int64_t fused_floats(int64_t n, int64_t dim, int threads);
void fused(const Problem &problem, int threads, float *memory);

// p = softmax(s) over n numbers, at least one of them not -inf. p may be s.
void softmax_row(const float *s, int64_t n, float *p);

}  // namespace flashattn::ladder
