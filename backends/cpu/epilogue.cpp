// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/epilogue.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace flashattn::cpu {
namespace {

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

// exp(m - to), and 0 for the empty state, where m - to may be -inf - -inf.
float rescale(float m, float to) {
  return m == kMinusInf ? 0.0F : std::exp(m - to);
}

// The larger one; a NaN in either wins, so that it reaches the result.
float propagating_max(float a, float b) {
  return a > b || std::isnan(a) ? a : b;
}

}  // namespace

void merge_state(const State &other, int32_t rows, int32_t dim_v, const State &into) {
  for (int32_t r = 0; r < rows; ++r) {
    // Copied as it is: an empty state leaves the other one's bits alone, and a NaN sum must not be lost to a
    // maximum of -inf.
    const bool skip = other.max[r] == kMinusInf && other.sum[r] == 0.0F;
    if (skip) continue;
    const float m = propagating_max(into.max[r], other.max[r]);
    const float keep = rescale(into.max[r], m);
    const float add = other.max[r] == m ? 1.0F : rescale(other.max[r], m);
    float *o = into.o + r * into.stride_o;
    const float *other_o = other.o + r * other.stride_o;
    for (int32_t c = 0; c < dim_v; ++c) o[c] = o[c] * keep + other_o[c] * add;
    into.sum[r] = into.sum[r] * keep + other.sum[r] * add;
    into.max[r] = m;
  }
}

void finish_tile(const Tile &tile, const State &state, StoreRow store) {
  const Shape &shape = *tile.shape;
  const flashattn_call_t &call = *tile.call;
  for (int32_t r = 0; r < tile.heads * tile.rows; ++r) {
    const int64_t i = query_of(tile, r);
    const int32_t head = head_of(tile, r);
    float m = state.max[r];
    float l = state.sum[r];
    float factor = 1.0F;
    if (shape.sinks) {
      const float sink = per_head(call.sinks, tile.sequence, head);
      const float with_sink = propagating_max(m, sink);
      if (with_sink != kMinusInf) {
        factor = rescale(m, with_sink);
        l = l * factor + rescale(sink, with_sink);
        m = with_sink;
      }
    }
    float *o = state.o + r * state.stride_o;
    if (l == 0.0F) {
      // Nothing was seen: the largest visible score would have added exp(0) = 1.
      std::fill_n(o, shape.dim_v, 0.0F);
    } else {
      factor /= l;
      for (int32_t c = 0; c < shape.dim_v; ++c) o[c] *= factor;
    }
    store(shape.dtype_o, o, shape.dim_v, o_row(shape, call, tile.sequence, i, head));
    if (call.lse.data != nullptr) *lse_element(shape, call, tile.sequence, i, head) = m + std::log(l);
  }
}

}  // namespace flashattn::cpu
