// SPDX-License-Identifier: Apache-2.0
// What happens to scores before the softmax: softcap, ALiBi, bias, mask, in that order. Only for blocks that
// need it.
#pragma once

#include "backends/cpu/simd/blocking.h"
#include "backends/cpu/simd/exp.h"

HWY_BEFORE_NAMESPACE();
namespace flashattn::cpu::HWY_NAMESPACE {

// Per lane, all relative to the first key of the block.
struct PanelRules {
  alignas(64) float begin[kPanel];  // visible keys: begin <= j < end
  alignas(64) float end[kPanel];
  alignas(64) float position[kPanel];  // i + d, where the row stands among the keys
  alignas(64) float slope[kPanel];     // ALiBi
};

// rows rows from first on; n keys from `block` on.
HWY_NOINLINE inline void fill_rules(const Tile &tile, int32_t first, int32_t rows, int64_t block, int32_t n,
                                    PanelRules *rules) {
  for (int32_t r = 0; r < kPanel; ++r) {
    if (r >= rows) {
      rules->begin[r] = rules->end[r] = rules->position[r] = rules->slope[r] = 0.0F;
      continue;
    }
    const KeyRange keys = visible_keys(tile, first + r);
    const int64_t last = n;
    rules->begin[r] = static_cast<float>(std::clamp<int64_t>(keys.begin - block, 0, last));
    rules->end[r] = static_cast<float>(std::clamp<int64_t>(keys.end - block, 0, last));
    if (!tile.shape->alibi) continue;
    rules->position[r] = static_cast<float>(query_of(tile, first + r) + tile.sequence.diagonal - block);
    rules->slope[r] = per_head(tile.call->alibi_slopes, tile.sequence, head_of(tile, first + r));
  }
}

// s has stride_s floats per key, bias kPanel; bias is nullptr when there is none.
template <int32_t kVectors>
HWY_INLINE void modify_scores(const Shape &shape, const PanelRules &rules, const float *bias, int32_t n,
                              float *HWY_RESTRICT s, int32_t stride_s) {
  const F32 f32;
  const Vector minus_inf = hn::Set(f32, -HUGE_VALF);
  const Vector cap = hn::Set(f32, shape.softcap);
  for (int32_t v = 0; v < kVectors; ++v) {
    const int32_t lane = v * kLanes;
    const Vector begin = hn::Load(f32, rules.begin + lane);
    const Vector end = hn::Load(f32, rules.end + lane);
    const Vector position = hn::Load(f32, rules.position + lane);
    const Vector slope = hn::Load(f32, rules.slope + lane);
    for (int32_t j = 0; j < n; ++j) {
      float *at = s + static_cast<int64_t>(j) * stride_s + lane;
      const Vector key = hn::Set(f32, static_cast<float>(j));
      Vector score = hn::Load(f32, at);
      if (shape.softcap > 0.0F) score = hn::Mul(cap, tanh(hn::Div(score, cap)));
      if (shape.alibi) score = hn::NegMulAdd(slope, hn::Abs(hn::Sub(position, key)), score);
      if (bias != nullptr) {
        const Vector b = hn::Load(f32, bias + static_cast<int64_t>(j) * kPanel + lane);
        score = hn::IfThenElse(hn::Eq(b, minus_inf), minus_inf, hn::Add(score, b));
      }
      const auto visible = hn::And(hn::Ge(key, begin), hn::Lt(key, end));
      hn::Store(hn::IfThenElse(visible, score, minus_inf), f32, at);
    }
  }
}

}  // namespace flashattn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
