// SPDX-License-Identifier: Apache-2.0
#include "tests/support/contents.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/dtype.h"

namespace flashattn::test {
namespace {

Rows make_rows(Rng &rng, const Arrangement &a, bool broadcast_batch, int64_t batch, int64_t seq,
               int64_t heads, int64_t dim, int32_t dtype, float mean, float spread) {
  Rows rows;
  rows.dim = dim;
  int64_t size = dim;
  const auto take = [&size](int64_t extent, bool broadcast) {
    const int64_t stride = broadcast ? 0 : size;
    if (!broadcast) size *= std::max<int64_t>(extent, 1);
    return stride;
  };
  rows.stride_head = take(heads, a.broadcast_head);
  rows.stride_seq = take(seq, a.broadcast_seq);
  rows.stride_batch = take(batch, broadcast_batch);
  rows.data.resize(size);
  for (float &value : rows.data) value = round_to(dtype, mean + spread * rng.bell());
  return rows;
}

BiasValues make_bias(Rng &rng, const Case &c) {
  BiasValues bias;
  int64_t size = 1;
  const auto take = [&size](int64_t extent, bool broadcast) {
    const int64_t stride = broadcast ? 0 : size;
    if (!broadcast) size *= std::max<int64_t>(extent, 1);
    return stride;
  };
  bias.stride_kv = take(c.max_n_k(), c.bias.broadcast_kv);
  bias.stride_q = take(c.max_n_q(), c.bias.broadcast_q);
  bias.stride_head = take(c.heads_q, c.bias.broadcast_head);
  bias.stride_batch = take(c.batch(), c.bias.broadcast_batch);
  bias.data.resize(size);
  for (float &value : bias.data) {
    const bool hidden = rng.chance(c.bias.hidden);
    const float drawn = 0.4F + rng.bell();
    if (c.bias.dtype == FLASHATTN_DTYPE_U8) {
      value = hidden ? 0.0F : static_cast<float>(rng.range(1, 255));
    } else {
      value = hidden ? -std::numeric_limits<float>::infinity() : round_to(c.bias.dtype, drawn);
    }
  }
  return bias;
}

std::vector<float> make_per_head(Rng &rng, const Case &c, PerHead kind, float mean, float spread,
                                 float fixed) {
  std::vector<float> values(static_cast<size_t>(c.batch()) * c.heads_q);
  for (size_t i = 0; i < values.size(); ++i) {
    const bool repeats = kind == PerHead::kHead && i >= static_cast<size_t>(c.heads_q);
    values[i] = repeats ? values[i - c.heads_q] : fixed != 0 ? fixed : mean + spread * rng.bell();
  }
  return values;
}

}  // namespace

Contents make_contents(const Case &c, Rng rng) {
  Contents contents;
  const bool one_cache = c.paged() && c.share_pages;
  contents.q = make_rows(rng, c.q, c.q.broadcast_batch, c.batch(), c.max_n_q(), c.heads_q, c.dim, c.dtype_q,
                         c.q_mean, c.q_spread);
  contents.k = make_rows(rng, c.k, c.k.broadcast_batch || one_cache, c.batch(), c.max_n_k(), c.heads_kv,
                         c.dim, c.dtype_kv, c.k_mean, c.k_spread);
  contents.v = make_rows(rng, c.v, c.v.broadcast_batch || one_cache, c.batch(), c.max_n_k(), c.heads_kv,
                         c.dim_v, c.dtype_kv, c.v_mean, c.v_spread);
  if (c.bias.dtype != 0) contents.bias = make_bias(rng, c);
  if (c.alibi != PerHead::kOff) {
    contents.slopes = make_per_head(rng, c, c.alibi, 0.15F, 0.04F, 0);
  }
  if (c.sinks != PerHead::kOff) contents.sinks = make_per_head(rng, c, c.sinks, 0.5F, 1.0F, c.sink_value);
  if (c.edit) c.edit(contents);
  return contents;
}

}  // namespace flashattn::test
