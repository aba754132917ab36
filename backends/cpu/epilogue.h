// SPDX-License-Identifier: Apache-2.0
// From online-softmax states to O and LSE.
#pragma once

#include "backends/cpu/tile.h"

namespace flashattn::cpu {

// Stores n floats as a row of the given dtype.
using StoreRow = void (*)(int32_t dtype, const float *source, int32_t n, void *out);

// Adds the state of other keys to `into`: m = max(m1, m2), l and o scaled by exp(m_i - m) and added. Two
// empty states make an empty one.
void merge_state(const State &other, int32_t rows, int32_t dim_v, const State &into);

// Adds the sinks, divides o by l, and writes the rows of O and LSE. Uses up the state.
void finish_tile(const Tile &tile, const State &state, StoreRow store);

}  // namespace flashattn::cpu
