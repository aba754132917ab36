// SPDX-License-Identifier: Apache-2.0
// Which keys a query sees, as one interval per query: causal masks and windows are both of that kind.
#pragma once

#include <cstdint>

#include "backends/cpu/shape.h"

namespace flashattn::cpu {

// Keys begin <= j < end. Empty when end <= begin.
struct KeyRange {
  int64_t begin;
  int64_t end;
};

// Keys that query i sees among n_k keys; diagonal is d = n_k - n_q + diag_offset of the semantics in
// flashattn.h. Both ends lie in 0..n_k, and neither ever falls as i grows.
KeyRange visible_keys(const Shape &shape, int64_t n_k, int64_t diagonal, int64_t i);

// Keys that any of the queries first..last sees: the blocks outside need not be looked at.
KeyRange visible_keys(const Shape &shape, int64_t n_k, int64_t diagonal, int64_t first, int64_t last);

}  // namespace flashattn::cpu
