// SPDX-License-Identifier: Apache-2.0
// Sequences of several tiles in the types and head dimensions that tensor-core kernels are made for: what the
// other tables vary in small shapes, here where a tile has full, masked, partly filled and empty blocks.
#include "tests/conformance/check.h"

namespace flashattn::test {
namespace {

Case tiles_of(int32_t dtype, int32_t dim, int32_t dim_v, int32_t n_q, int32_t n_k) {
  Case c;
  c.dtype_q = c.dtype_kv = c.dtype_o = dtype;
  c.dim = dim;
  c.dim_v = dim_v;
  c.n_q = {n_q};
  c.n_k = {n_k};
  c.verify_every = 3;
  return c;
}

// Scores that climb along the keys by tens a block: a fixed reference has to follow.
void climb(Contents &contents, const Case &c) {
  for (int32_t b = 0; b < c.batch(); ++b) {
    for (int32_t h = 0; h < c.heads_q; ++h) {
      for (int32_t i = 0; i < c.n_q[b]; ++i) contents.q.row(b, i, h)[0] = 16;
    }
    for (int32_t h = 0; h < c.heads_kv; ++h) {
      for (int32_t j = 0; j < c.n_k[b]; ++j)
        contents.k.row(b, j, h)[0] = static_cast<float>(j * 40 / c.n_k[b]);
    }
  }
}

// A key far down the row whose score is thousands above the others.
void late_peak(Contents &contents, const Case &c) {
  const int32_t at = c.n_k[0] * 3 / 4;
  for (int32_t h = 0; h < c.heads_kv; ++h) {
    for (int32_t d = 0; d < c.dim; ++d)
      contents.k.row(0, at, h)[d] = contents.q.row(0, c.n_q[0] - 1, h)[d] > 0 ? 64 : -64;
  }
}

void add_dense(std::vector<Case> *cases, int32_t dtype, int32_t dim, int32_t dim_v) {
  const auto add = [&](int32_t n_q, int32_t n_k, int32_t causal, auto change) {
    Case c = tiles_of(dtype, dim, dim_v, n_q, n_k);
    c.causal = causal;
    change(c);
    cases->push_back(c);
  };
  const auto plain = [](Case &) {};
  add(1, 1, 1, plain);
  add(5, 0, 0, plain);
  add(300, 191, 0, [](Case &c) {
    c.heads_q = 3;
    c.heads_kv = 1;
    c.q.order = c.k.order = c.o.order = Order::kBHS;
  });
  add(257, 449, 1, [](Case &c) { c.lse_order = Order::kBSH; });
  add(300, 130, 1, plain);
  add(200, 330, 1, [](Case &c) { c.diag_offset = -100; });
  add(200, 330, 1, [](Case &c) { c.diag_offset = 77; });
  add(129, 257, 1, [](Case &c) {
    c.n_q.assign(3, c.n_q[0]);
    c.n_k.assign(3, c.n_k[0]);
    c.heads_q = 4;
    c.want_lse = false;
  });
  for (const float spread : {10.0F, 30.0F, 100.0F}) {
    add(200, 320, 1, [spread](Case &c) { c.q_spread = spread; });
  }
  add(130, 320, 1, [](Case &c) { c.edit = [c](Contents &contents) { climb(contents, c); }; });
  add(130, 320, 0, [](Case &c) { c.edit = [c](Contents &contents) { late_peak(contents, c); }; });
}

void add_features(std::vector<Case> *cases, int32_t dtype, int32_t dim, int32_t dim_v) {
  const auto add = [&](int32_t n_q, int32_t n_k, auto change) {
    Case c = tiles_of(dtype, dim, dim_v, n_q, n_k);
    change(c);
    cases->push_back(c);
  };
  struct Window {
    int32_t left, right;
  };
  for (const Window w : {Window{0, 0}, {100, 0}, {63, 40}, {-1, 30}, {70, -1}, {64, 64}}) {
    add(300, 400, [w](Case &c) {
      c.window = true;
      c.left = w.left;
      c.right = w.right;
      c.diag_offset = w.left == 70 ? -150 : 0;
    });
  }
  add(300, 300, [](Case &c) {
    c.window = true;
    c.causal = 1;
    c.left = 90;
    c.heads_q = 4;
    c.sinks = PerHead::kHead;
  });
  for (const float cap : {0.7F, 30.0F}) {
    add(200, 260, [cap](Case &c) {
      c.softcap = cap;
      c.causal = 1;
    });
  }
  add(200, 260, [](Case &c) { c.scale = -0.3F; });
  add(200, 330, [](Case &c) {
    c.alibi = PerHead::kBatchHead;
    c.causal = 1;
    c.heads_q = 4;
  });
  add(200, 330, [](Case &c) {
    c.alibi = PerHead::kHead;
    c.softcap = 20;
  });
  add(300, 130, [](Case &c) {
    c.causal = 1;
    c.sinks = PerHead::kBatchHead;
  });
  const auto lengths = [](Case &c) {
    c.n_q = {1, 130, 0, 300, 70};
    c.n_k = {64, 130, 50, 65, 0};
  };
  add(0, 0, [&](Case &c) {
    lengths(c);
    c.layout_q = c.layout_kv = FLASHATTN_LAYOUT_RAGGED;
    c.causal = 1;
    c.lead_rows = 1;
    c.tail_rows = 2;
  });
  add(0, 0, [&](Case &c) {
    lengths(c);
    c.layout_q = c.layout_kv = FLASHATTN_LAYOUT_RAGGED;
    c.heads_q = 4;
    c.window = true;
    c.left = 60;
    c.right = 10;
    c.sinks = PerHead::kHead;
    c.cu_int64 = true;
    c.slack = 9;
  });
  add(0, 0, [&](Case &c) {
    lengths(c);
    c.seqused_q = c.seqused_kv = true;
    c.spare_q = 5;
    c.spare_kv = 3;
    c.causal = 1;
    c.diag_offsets = {0, -3, 4, 20, 1};
  });
  add(0, 0, [&](Case &c) {
    c.n_q = {200, 200};
    c.n_k = {100, 333};
    c.layout_kv = FLASHATTN_LAYOUT_RAGGED;
    c.seqused_kv = true;
    c.spare_kv = 70;
    c.softcap = 15;
    c.alibi = PerHead::kHead;
  });
}

}  // namespace

std::vector<Case> tile_cases() {
  std::vector<Case> cases;
  struct Dims {
    int32_t qk, v;
  };
  for (const Dims dims : {Dims{64, 64}, {128, 128}, {256, 256}}) {
    add_dense(&cases, FLASHATTN_DTYPE_BF16, dims.qk, dims.v);
    add_dense(&cases, FLASHATTN_DTYPE_F16, dims.qk, dims.v);
    add_features(&cases, FLASHATTN_DTYPE_BF16, dims.qk, dims.v);
  }
  add_features(&cases, FLASHATTN_DTYPE_F16, 40, 40);
  add_features(&cases, FLASHATTN_DTYPE_F16, 192, 128);
  return cases;
}

}  // namespace flashattn::test
