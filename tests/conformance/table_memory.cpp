// SPDX-License-Identifier: Apache-2.0
// Where things lie: strides, ragged batches, used lengths, pages; and how keys are split.
#include "tests/conformance/check.h"

namespace flashattn::test {
namespace {
constexpr int32_t kDtypes[] = {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_BF16};
}

std::vector<Case> stride_cases() {
  std::vector<Case> cases;
  for (const int32_t dtype : kDtypes) {
    for (const int32_t n_q : {1, 19}) {
      Case c;
      c.dtype_q = c.dtype_kv = c.dtype_o = dtype;
      c.heads_q = 4;
      c.n_q = {n_q, n_q, n_q};
      c.n_k = {40, 40, 40};
      c.dim = 32;
      c.dim_v = 48;
      const Case plain = c;
      const Order orders[] = {Order::kBSH, Order::kBHS, Order::kSBH, Order::kHBS};
      for (int32_t n = 0; n < 4; ++n) {
        c.q.order = orders[n];
        c.k.order = orders[(n + 1) % 4];
        c.v.order = orders[(n + 2) % 4];
        c.o.order = orders[(n + 3) % 4];
        c.lse_order = orders[n];
        cases.push_back(c);
      }
      c = plain;
      c.q.pad_inner = c.k.pad_inner = c.v.pad_inner = 5;  // heads sliced out of a packed QKV
      cases.push_back(c);
      c.o.pad_inner = 2;
      c.o.pad_dim = 3;
      c.k.pad_dim = 1;
      c.v.pad_outer = 2;
      c.lse_pad = 2;
      cases.push_back(c);
      for (const int32_t misalign : {1, 2, 3, 5}) {
        c = plain;
        c.q.misalign = c.o.misalign = misalign;
        c.k.misalign = c.v.misalign = 4 - misalign;
        if (c.k.misalign < 0) c.k.misalign = c.v.misalign = 7;
        cases.push_back(c);
      }
      for (int32_t mask = 1; mask < 8; ++mask) {
        c = plain;
        c.k.broadcast_batch = c.v.broadcast_head = c.q.broadcast_seq = (mask & 1) != 0;
        c.k.broadcast_head = c.v.broadcast_seq = c.q.broadcast_batch = (mask & 2) != 0;
        c.k.broadcast_seq = c.v.broadcast_batch = c.q.broadcast_head = (mask & 4) != 0;
        cases.push_back(c);
      }
      c = plain;
      c.want_lse = false;
      cases.push_back(c);
      c.slack = 3;
      cases.push_back(c);
    }
  }
  return cases;
}

std::vector<Case> ragged_cases() {
  std::vector<Case> cases;
  struct Lengths {
    std::vector<int32_t> n_q, n_k;
  };
  const std::vector<Lengths> lengths = {
      {{5, 1, 30}, {9, 40, 30}},
      {{0, 4, 0, 2}, {3, 0, 0, 50}},
      {{1, 1, 1, 1, 1}, {1, 130, 0, 17, 64}},
      {{20}, {20}},
      {{0}, {0}},
      {{3, 90, 17}, {2, 100, 200}},
  };
  int32_t turn = 0;
  for (const Lengths &l : lengths) {
    for (const int32_t layout_q : {FLASHATTN_LAYOUT_DENSE, FLASHATTN_LAYOUT_RAGGED}) {
      for (const int32_t layout_kv : {FLASHATTN_LAYOUT_DENSE, FLASHATTN_LAYOUT_RAGGED}) {
        for (const int32_t spare : {0, 3}) {
          Case c;
          c.n_q = l.n_q;
          c.n_k = l.n_k;
          c.layout_q = layout_q;
          c.layout_kv = layout_kv;
          c.dtype_q = c.dtype_kv = c.dtype_o = kDtypes[turn % 3];
          c.heads_q = 4;
          c.seqused_q = layout_q == FLASHATTN_LAYOUT_DENSE || spare > 0;
          c.seqused_kv = layout_kv == FLASHATTN_LAYOUT_DENSE || spare > 0;
          c.spare_q = c.spare_kv = spare;
          c.lead_rows = turn % 3;
          c.tail_rows = 2 * (turn % 2);
          c.cu_int64 = turn % 2 == 0 && (layout_q | layout_kv) == FLASHATTN_LAYOUT_RAGGED;
          c.causal = turn % 2;
          c.lse_order = turn % 3 == 0 ? Order::kBSH : Order::kBHS;
          c.q.order = turn % 4 == 1 ? Order::kBHS : Order::kBSH;
          c.o.order = turn % 4 == 2 ? Order::kBHS : Order::kBSH;
          ++turn;
          cases.push_back(c);
          c.num_splits = 3;
          c.sinks = PerHead::kBatchHead;
          c.alibi = PerHead::kBatchHead;
          cases.push_back(c);
        }
      }
    }
  }
  Case empty;
  empty.name = "batch 0";
  empty.n_q = {};
  empty.n_k = {};
  empty.slack = 1;
  cases.push_back(empty);
  empty.layout_q = empty.layout_kv = FLASHATTN_LAYOUT_RAGGED;
  cases.push_back(empty);
  return cases;
}

std::vector<Case> paged_cases() {
  std::vector<Case> cases;
  int32_t turn = 0;
  for (const int32_t page : {1, 3, 16, 17, 64, 256}) {
    for (const int32_t layout : {FLASHATTN_LAYOUT_PAGED, FLASHATTN_LAYOUT_PAGED_CSR}) {
      for (const int32_t n_q : {1, 4, 25}) {
        Case c;
        c.page_size = page;
        c.layout_kv = layout;
        c.dtype_q = turn % 2 == 0 ? FLASHATTN_DTYPE_F32 : FLASHATTN_DTYPE_F16;
        c.dtype_kv = kDtypes[turn % 3];
        c.heads_q = 6;
        c.n_q = {n_q, n_q, n_q, n_q};
        c.n_k = {page, 1, 3 * page + 1 > 150 ? 150 : 3 * page + 1, 66};
        c.causal = 1;
        c.spare_kv = turn % 3 == 0 ? 5 : 0;
        c.share_pages = turn % 5 == 4;
        c.slack = turn % 4;
        // Page pools come slot-major, head-major, and interleaved.
        c.k.order = turn % 2 == 0 ? Order::kBSH : Order::kBHS;
        c.v.order = turn % 3 == 0 ? Order::kBHS : Order::kBSH;
        c.k.pad_outer = turn % 2;
        ++turn;
        cases.push_back(c);

        c.layout_q = FLASHATTN_LAYOUT_RAGGED;
        c.n_q = {n_q, 0, 2, n_q};
        c.n_k = {0, 2 * page, 5, 100};
        c.num_splits = turn % 3;
        c.window = true;
        c.left = 33;
        c.right = 0;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

std::vector<Case> split_cases() {
  std::vector<Case> cases;
  int32_t turn = 0;
  for (int32_t splits = 1; splits <= 7; ++splits) {
    for (const int32_t n_k : {0, 1, 5, 64, 129, 300}) {
      for (const int32_t n_q : {1, 3, 18}) {
        Case c;
        c.num_splits = splits;
        c.dtype_q = c.dtype_kv = c.dtype_o = kDtypes[turn % 3];
        c.heads_q = 4;
        c.heads_kv = turn % 4 == 0 ? 1 : 2;
        c.n_q = {n_q};
        c.n_k = {n_k};
        c.causal = turn % 2;
        c.sinks = turn % 3 == 0 ? PerHead::kHead : PerHead::kOff;
        c.alibi = turn % 5 == 0 ? PerHead::kHead : PerHead::kOff;
        c.window = turn % 7 == 3;
        c.left = 40;
        c.dim = 16 + turn % 3;
        ++turn;
        cases.push_back(c);
      }
    }
  }
  for (const int32_t splits : {16, 256}) {
    Case c;
    c.num_splits = splits;
    c.n_k = {200};
    c.n_q = {2};
    cases.push_back(c);
  }
  for (const int32_t n_k : {1, 200, 700}) {
    Case c;
    c.flags = FLASHATTN_FLAG_BATCH_INVARIANT;
    c.n_q = {1, 1};
    c.n_k = {n_k, n_k};
    c.heads_q = 8;
    cases.push_back(c);
    c.n_q = {30, 30};
    c.causal = 1;
    cases.push_back(c);
  }
  // Long enough for the library to split by its own choice.
  for (const int32_t n_q : {1, 4, 16}) {
    Case c;
    c.n_q = {n_q};
    c.n_k = {3001};
    c.heads_q = 8;
    c.dim = c.dim_v = 16;
    c.dtype_q = FLASHATTN_DTYPE_F32;
    c.dtype_kv = FLASHATTN_DTYPE_F16;
    c.causal = 1;
    cases.push_back(c);
    c.sinks = PerHead::kHead;
    c.layout_kv = FLASHATTN_LAYOUT_PAGED;
    cases.push_back(c);
  }
  return cases;
}

}  // namespace flashattn::test
