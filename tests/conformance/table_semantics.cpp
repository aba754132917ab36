// SPDX-License-Identifier: Apache-2.0
// What is computed: masks, scores, sinks, bias, extreme values.
#include <limits>

#include "tests/conformance/check.h"

namespace flashattn::test {
namespace {
constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
}  // namespace

std::vector<Case> mask_cases() {
  std::vector<Case> cases;
  struct Shape {
    int32_t n_q, n_k;
  };
  for (const Shape shape : {Shape{1, 70}, {4, 70}, {33, 33}, {20, 130}, {70, 21}, {150, 150}}) {
    const auto add = [&](int32_t causal, bool window, int32_t left, int32_t right, int32_t diag_offset) {
      Case c;
      c.n_q = {shape.n_q};
      c.n_k = {shape.n_k};
      c.dim = c.dim_v = 16;
      c.heads_kv = cases.size() % 2 == 0 ? 1 : 2;
      c.causal = causal;
      c.window = window;
      c.left = left;
      c.right = right;
      c.diag_offset = diag_offset;
      cases.push_back(c);
    };
    const int32_t top_left = shape.n_q - shape.n_k;
    for (const int32_t offset : {0, 1, -1, 5, -5, top_left, -shape.n_k, -shape.n_k - 1, kMax, kMin}) {
      add(1, false, 0, 0, offset);
    }
    for (const int32_t offset : {0, -3, 4}) {
      add(0, true, 0, 0, offset);
      add(0, true, 3, 5, offset);
      add(0, true, -1, 2, offset);
      add(0, true, 4, -1, offset);
      add(0, true, -1, -1, offset);
      add(0, true, 15, 0, offset);
      add(0, true, 16, 0, offset);
      add(0, true, 0, 17, offset);
      add(1, true, 7, 0, offset);
      add(1, true, 31, 9, offset);  // causal means right = 0
      add(1, true, 63, -1, offset);
      add(0, true, kMax, kMax, offset);
    }
    add(0, true, kMax, kMax, kMax);
    add(0, true, 2, 2, kMin);
    add(0, true, 2, 2, kMax);
  }
  for (const int32_t n_q : {1, 40}) {
    Case c;
    c.n_q = {n_q, n_q, n_q, n_q};
    c.n_k = {60, 60, 60, 60};
    c.causal = 1;
    c.diag_offset = 2;
    c.diag_offsets = {0, -7, 5, -90};
    cases.push_back(c);
    c.causal = 0;
    c.window = true;
    c.left = 6;
    c.right = 1;
    cases.push_back(c);
  }
  return cases;
}

std::vector<Case> score_cases() {
  std::vector<Case> cases;
  for (const int32_t n_q : {1, 3, 35}) {
    for (const int32_t causal : {0, 1}) {
      Case c;
      c.heads_q = 6;
      c.heads_kv = 3;
      c.n_q = {n_q, n_q};
      c.n_k = {67, 67};
      c.causal = causal;
      for (const float scale : {1.0F, 0.01F, -0.3F}) {
        c.scale = scale;
        cases.push_back(c);
      }
      c.scale = 0;
      for (const float softcap : {0.05F, 1.0F, 30.0F, 1e6F}) {
        c.softcap = softcap;
        cases.push_back(c);
      }
      c.q_spread = 20;
      c.softcap = 15;
      cases.push_back(c);
      c.q_spread = 1;
      c.softcap = 0;
      for (const PerHead alibi : {PerHead::kHead, PerHead::kBatchHead}) {
        c.alibi = alibi;
        for (const int32_t offset : {0, -9, 4}) {
          c.diag_offset = offset;
          cases.push_back(c);
        }
        c.diag_offset = 0;
        c.softcap = 2;
        cases.push_back(c);
        c.softcap = 0;
      }
      c.dtype_q = c.dtype_kv = c.dtype_o = FLASHATTN_DTYPE_BF16;
      c.softcap = 5;
      cases.push_back(c);
    }
  }
  return cases;
}

std::vector<Case> sink_cases() {
  std::vector<Case> cases;
  for (const PerHead sinks : {PerHead::kHead, PerHead::kBatchHead}) {
    for (const int32_t n_q : {1, 2, 40}) {
      Case c;
      c.sinks = sinks;
      c.heads_q = 4;
      c.n_q = {n_q, n_q, n_q};
      c.n_k = {30, 30, 30};
      cases.push_back(c);
      c.causal = 1;
      cases.push_back(c);
      c.diag_offset = -20;  // some rows empty but for the sink
      cases.push_back(c);
      c.diag_offset = -40;  // all
      cases.push_back(c);
      c.diag_offset = 0;
      for (const float value : {60.0F, -60.0F, 300.0F, -std::numeric_limits<float>::infinity()}) {
        c.sink_value = value;
        cases.push_back(c);
      }
      c.sink_value = -std::numeric_limits<float>::infinity();
      c.diag_offset = -40;
      cases.push_back(c);
      c.sink_value = 0;
      c.diag_offset = 0;
      c.dtype_q = c.dtype_kv = c.dtype_o = FLASHATTN_DTYPE_F16;
      c.window = true;
      c.left = 5;
      cases.push_back(c);
    }
  }
  Case empty;
  empty.name = "no keys at all";
  empty.sinks = PerHead::kHead;
  empty.n_k = {0};
  cases.push_back(empty);
  return cases;
}

std::vector<Case> bias_cases() {
  std::vector<Case> cases;
  for (const int32_t dtype :
       {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_BF16, FLASHATTN_DTYPE_U8}) {
    for (const int32_t n_q : {1, 21}) {
      Case c;
      c.bias.dtype = dtype;
      c.heads_q = 4;
      c.n_q = {n_q, n_q};
      c.n_k = {75, 75};
      c.dim = c.dim_v = 24;
      c.bias.hidden = 0.3;
      cases.push_back(c);
      for (int32_t mask = 1; mask < 16; ++mask) {
        c.bias.broadcast_batch = (mask & 1) != 0;
        c.bias.broadcast_head = (mask & 2) != 0;
        c.bias.broadcast_q = (mask & 4) != 0;
        c.bias.broadcast_kv = (mask & 8) != 0;
        c.bias.pad_kv = mask % 3;
        c.bias.misalign = mask % 2;
        c.causal = mask % 2;
        cases.push_back(c);
      }
      c.bias = BiasCase();
      c.bias.dtype = dtype;
      c.bias.transposed = true;
      c.bias.pad_kv = 1;
      c.bias.hidden = 0.97;  // most rows see one key or none
      cases.push_back(c);
      c.bias.hidden = 1;
      cases.push_back(c);
      c.sinks = PerHead::kHead;
      c.alibi = PerHead::kHead;
      c.softcap = 3;
      c.bias.hidden = 0.5;
      cases.push_back(c);
      c.num_splits = 3;
      cases.push_back(c);
      c.seqused_q = c.seqused_kv = true;
      c.n_q = {n_q, 2};
      c.n_k = {60, 11};
      c.spare_q = 2;
      c.spare_kv = 5;
      cases.push_back(c);
      c.layout_kv = FLASHATTN_LAYOUT_PAGED;
      cases.push_back(c);
      c.layout_kv = FLASHATTN_LAYOUT_RAGGED;
      cases.push_back(c);
    }
  }
  return cases;
}

std::vector<Case> extreme_logit_cases() {
  std::vector<Case> cases;
  for (const int32_t dtype : {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_BF16}) {
    for (const int32_t n_q : {1, 20}) {
      Case c;
      c.dtype_q = c.dtype_kv = c.dtype_o = dtype;
      c.dim = 64;
      c.n_q = {n_q};
      c.n_k = {140};
      c.q_spread = 30;
      cases.push_back(c);
      c.num_splits = 4;
      cases.push_back(c);
      c.causal = 1;
      c.sinks = PerHead::kHead;
      cases.push_back(c);

      c.sinks = PerHead::kOff;
      c.num_splits = 0;
      c.q_mean = c.k_mean = 900;  // logits near 6.5e6
      c.q_spread = c.k_spread = 50;
      cases.push_back(c);
      c.k_mean = -900;
      cases.push_back(c);
      c.num_splits = 3;
      cases.push_back(c);
      c.window = true;  // one visible key at logits near -6.5e6
      cases.push_back(c);
    }
  }
  return cases;
}

}  // namespace flashattn::test
