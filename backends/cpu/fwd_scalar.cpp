// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/fwd_scalar.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/carve.h"
#include "backends/cpu/convert.h"

namespace flashattn::cpu {
namespace {

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
constexpr int32_t kRows = 16;
constexpr int32_t kKeys = 64;

struct Scratch {
  float *q;       // one row of Q
  float *kv;      // one row of K or V
  float *scores;  // one row of a block: scores, then probabilities
};

Scratch carve_scratch(Carver *carver, const Shape &shape) {
  Scratch scratch{};
  scratch.q = carver->take<float>(shape.dim);
  scratch.kv = carver->take<float>(std::max(shape.dim, shape.dim_v));
  scratch.scores = carver->take<float>(kKeys);
  return scratch;
}

// score = scale q.k, softcap, ALiBi, bias, in the order of flashattn.h; the mask is in the range of j.
float score_at(const Tile &tile, const Scratch &scratch, int64_t i, int32_t head, int64_t j) {
  const Shape &shape = *tile.shape;
  const flashattn_call_t &call = *tile.call;
  load_row(shape.dtype_kv, kv_row(shape, call.k, tile.sequence, j, head / shape.group), shape.dim,
           scratch.kv);
  float dot = 0.0F;
  for (int32_t c = 0; c < shape.dim; ++c) dot += scratch.q[c] * scratch.kv[c];
  float score = shape.scale * dot;
  if (shape.softcap > 0.0F) score = shape.softcap * std::tanh(score / shape.softcap);
  if (shape.alibi) {
    const int64_t distance = std::abs(i + tile.sequence.diagonal - j);
    score -= per_head(call.alibi_slopes, tile.sequence, head) * static_cast<float>(distance);
  }
  if (shape.dtype_bias != 0) {
    float bias;
    bias_row(shape, call.bias, tile.sequence, head, i, j, 1, &bias, 1);
    score = bias == kMinusInf ? kMinusInf : score + bias;
  }
  return score;
}

// One step of the online softmax over scores[0..n): turns them into exp(score - m) and returns what the state
// so far is to be multiplied by, exp(m_old - m). While m is -inf every exponent is taken against 0 instead,
// so that nothing becomes -inf - -inf.
float softmax_step(float *scores, int32_t n, float *max, float *sum) {
  float m = *max;
  for (int32_t j = 0; j < n; ++j) m = scores[j] > m || std::isnan(scores[j]) ? scores[j] : m;
  const float shift = m == kMinusInf ? 0.0F : m;
  float added = 0.0F;
  for (int32_t j = 0; j < n; ++j) {
    scores[j] = std::exp(scores[j] - shift);
    added += scores[j];
  }
  const float keep = std::exp(*max - shift);
  *sum = *sum * keep + added;
  *max = m;
  return keep;
}

void attend_row(const Tile &tile, const Scratch &scratch, int32_t r, const State &state) {
  const Shape &shape = *tile.shape;
  const int64_t i = query_of(tile, r);
  const int32_t head = head_of(tile, r);
  const KeyRange keys = visible_keys(tile, r);
  float *o = state.o + r * state.stride_o;
  std::fill_n(o, shape.dim_v, 0.0F);
  state.max[r] = kMinusInf;
  state.sum[r] = 0.0F;
  load_row(shape.dtype_q, q_row(shape, *tile.call, tile.sequence, i, head), shape.dim, scratch.q);

  for (int64_t block = tile.keys.begin; block < keys.end; block += kKeys) {
    const int64_t begin = std::max(block, keys.begin);
    const int64_t end = std::min(block + kKeys, keys.end);
    if (end <= begin) continue;
    const auto n = static_cast<int32_t>(end - begin);
    for (int32_t j = 0; j < n; ++j) scratch.scores[j] = score_at(tile, scratch, i, head, begin + j);
    const float keep = softmax_step(scratch.scores, n, &state.max[r], &state.sum[r]);
    for (int32_t c = 0; c < shape.dim_v; ++c) o[c] *= keep;
    for (int32_t j = 0; j < n; ++j) {
      load_row(shape.dtype_kv, kv_row(shape, tile.call->v, tile.sequence, begin + j, head / shape.group),
               shape.dim_v, scratch.kv);
      for (int32_t c = 0; c < shape.dim_v; ++c) o[c] += scratch.scores[j] * scratch.kv[c];
    }
  }
}

void tile_scalar(const Tile &tile, const Blocking & /*blocking*/, void *memory, const State &state) {
  Carver carver(memory);
  const Scratch scratch = carve_scratch(&carver, *tile.shape);
  for (int32_t r = 0; r < tile.heads * tile.rows; ++r) attend_row(tile, scratch, r, state);
}

Blocking blocking_scalar(const Shape &shape, int64_t max_rows) {
  Carver carver(nullptr);
  carve_scratch(&carver, shape);
  return {static_cast<int32_t>(std::min<int64_t>(kRows, max_rows)), 1, kKeys, carver.size()};
}

const char *missing_scalar(const CpuFeatures & /*features*/) {
  return nullptr;
}

}  // namespace

const Kernel kFwdCpuScalar = {"fwd_cpu_scalar", missing_scalar, true,
                              blocking_scalar,  tile_scalar,    store_row};

}  // namespace flashattn::cpu
