// SPDX-License-Identifier: Apache-2.0
// Any feature with any other: every case draws each of its fields, and then gives up what the header rules
// out.
#include "tests/conformance/check.h"

namespace flashattn::test {
namespace {

int32_t draw_dtype(Rng *rng) {
  return rng->pick({FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_BF16});
}

Order draw_order(Rng *rng) {
  return rng->pick({Order::kBSH, Order::kBHS, Order::kSBH, Order::kHBS});
}

Arrangement draw_arrangement(Rng *rng) {
  Arrangement a;
  if (rng->chance(0.5)) return a;
  a.order = draw_order(rng);
  if (rng->chance(0.3)) a.pad_dim = rng->range(1, 9);
  if (rng->chance(0.3)) a.pad_inner = rng->range(1, 3);
  if (rng->chance(0.3)) a.pad_outer = rng->range(1, 3);
  if (rng->chance(0.3)) a.misalign = rng->range(1, 9);
  return a;
}

void draw_lengths(Rng *rng, Case *c) {
  const int32_t batch = rng->range(1, 4);
  const int32_t most_q = rng->pick({1, 1, 4, 16, 40, 80});
  const int32_t most_k = rng->pick({5, 20, 70, 150, 300});
  c->n_q.clear();
  c->n_k.clear();
  for (int32_t b = 0; b < batch; ++b) {
    c->n_q.push_back(rng->chance(0.1) ? 0 : rng->range(1, most_q));
    c->n_k.push_back(rng->chance(0.1) ? 0 : rng->range(1, most_k));
  }
  c->layout_q = rng->pick({FLASHATTN_LAYOUT_DENSE, FLASHATTN_LAYOUT_RAGGED});
  c->layout_kv = rng->pick(
      {FLASHATTN_LAYOUT_DENSE, FLASHATTN_LAYOUT_RAGGED, FLASHATTN_LAYOUT_PAGED, FLASHATTN_LAYOUT_PAGED_CSR});
  c->page_size = rng->pick({1, 3, 16, 17, 64});
  c->share_pages = rng->chance(0.1);
  c->seqused_q = rng->chance(0.4);
  c->seqused_kv = rng->chance(0.4) || c->paged();
  if (c->layout_q == FLASHATTN_LAYOUT_DENSE && !c->seqused_q) c->n_q.assign(batch, c->n_q[0]);
  if (c->layout_kv == FLASHATTN_LAYOUT_DENSE && !c->seqused_kv) c->n_k.assign(batch, c->n_k[0]);
  if (c->seqused_q) c->spare_q = rng->range(0, 5);
  if (c->seqused_kv) c->spare_kv = rng->range(0, 5);
  c->lead_rows = rng->range(0, 2);
  c->tail_rows = rng->range(0, 2);
  const bool ragged = c->layout_q == FLASHATTN_LAYOUT_RAGGED || c->layout_kv == FLASHATTN_LAYOUT_RAGGED;
  c->cu_int64 = ragged && rng->chance(0.3);
  c->slack = rng->chance(0.3) ? rng->range(1, 40) : 0;
}

void draw_features(Rng *rng, Case *c) {
  if (rng->chance(0.2)) c->scale = rng->pick({1.0F, 0.05F, 0.4F, -0.2F});
  if (rng->chance(0.25)) c->softcap = rng->pick({0.5F, 5.0F, 50.0F});
  c->causal = rng->chance(0.5) ? 1 : 0;
  c->window = rng->chance(0.3);
  if (c->window) {
    c->left = rng->pick({-1, 0, 1, 7, 15, 16, 63, 100});
    c->right = rng->pick({-1, 0, 1, 8, 31});
  }
  if (rng->chance(0.3)) c->diag_offset = rng->range(-30, 30);
  if (rng->chance(0.2)) {
    for (int32_t b = 0; b < c->batch(); ++b) c->diag_offsets.push_back(rng->range(-30, 30));
  }
  if (rng->chance(0.25)) c->alibi = rng->pick({PerHead::kHead, PerHead::kBatchHead});
  if (rng->chance(0.25)) c->sinks = rng->pick({PerHead::kHead, PerHead::kBatchHead});
  if (c->layout_q != FLASHATTN_LAYOUT_RAGGED && rng->chance(0.4)) {
    c->bias.dtype = rng->chance(0.3) ? FLASHATTN_DTYPE_U8 : draw_dtype(rng);
    c->bias.broadcast_batch = rng->chance(0.3);
    c->bias.broadcast_head = rng->chance(0.3);
    c->bias.broadcast_q = rng->chance(0.3);
    c->bias.broadcast_kv = rng->chance(0.1);
    c->bias.transposed = rng->chance(0.2);
    c->bias.pad_kv = rng->range(0, 3);
    c->bias.misalign = rng->range(0, 3);
    c->bias.hidden = rng->pick({0.0, 0.2, 0.9});
  }
  if (rng->chance(0.1)) {
    c->flags |= FLASHATTN_FLAG_BATCH_INVARIANT;
  } else if (rng->chance(0.4)) {
    c->num_splits = rng->range(1, 7);
  }
  c->threads = rng->pick({1, 2, 3});
}

}  // namespace

std::vector<Case> random_cases(int32_t count) {
  struct Heads {
    int32_t q, kv;
  };
  const std::vector<Heads> heads = {{1, 1}, {2, 2}, {4, 2}, {6, 3}, {8, 1}, {4, 1}, {9, 3}, {16, 2}};
  const std::vector<int32_t> dims = {1, 8, 16, 24, 32, 40, 64, 64, 72, 80, 96, 100, 128, 128, 192, 255, 576};
  Rng rng = rng_for("random cases");
  std::vector<Case> cases;
  for (int32_t n = 0; n < count; ++n) {
    Case c;
    c.dtype_q = draw_dtype(&rng);
    c.dtype_kv = rng.chance(0.5) ? c.dtype_q : draw_dtype(&rng);
    c.dtype_o = rng.chance(0.5) ? c.dtype_q : draw_dtype(&rng);
    const Heads h = rng.pick(heads);
    c.heads_q = h.q;
    c.heads_kv = h.kv;
    c.dim = rng.pick(dims);
    c.dim_v = rng.chance(0.6) ? c.dim : rng.pick(dims);
    draw_lengths(&rng, &c);
    draw_features(&rng, &c);
    c.q = draw_arrangement(&rng);
    c.k = draw_arrangement(&rng);
    c.v = draw_arrangement(&rng);
    c.o = draw_arrangement(&rng);
    c.k.broadcast_head = rng.chance(0.05);
    c.v.broadcast_head = rng.chance(0.05);
    c.lse_order = draw_order(&rng);
    c.lse_pad = rng.chance(0.3) ? rng.range(1, 3) : 0;
    c.want_lse = rng.chance(0.85);
    if (rng.chance(0.15)) c.q_spread = 20;
    cases.push_back(c);
  }
  return cases;
}

}  // namespace flashattn::test
