// SPDX-License-Identifier: Apache-2.0
#include "bindings/golden/cases.h"

#include <cstring>
#include <utility>

namespace flashattn::golden {
namespace {

using test::Arrangement;
using test::Case;
using test::Order;
using test::PerHead;
using test::PreparedCall;

// A small case in dtype, dense unless changed.
Case small(const char *name, int32_t dtype, std::vector<int32_t> n_q, std::vector<int32_t> n_k) {
  Case c;
  c.name = name;
  c.dtype_q = c.dtype_kv = c.dtype_o = dtype;
  c.heads_q = dtype == FLASHATTN_DTYPE_F32 ? 2 : 4;
  c.heads_kv = c.heads_q / 2;
  c.dim = 8;
  c.dim_v = 8;
  c.n_q = std::move(n_q);
  c.n_k = std::move(n_k);
  return c;
}

Case paged(const char *name, int32_t layout) {
  Case c = small(name, FLASHATTN_DTYPE_F32, {2, 2}, {7, 5});
  c.layout_kv = layout;
  c.page_size = 4;
  c.causal = 1;
  return c;
}

Case ragged(const char *name, int32_t dtype) {
  Case c = small(name, dtype, {3, 0, 5}, {6, 4, 5});
  c.layout_q = FLASHATTN_LAYOUT_RAGGED;
  c.layout_kv = FLASHATTN_LAYOUT_RAGGED;
  c.causal = 1;
  return c;
}

Case wrong(const char *name) {
  return small(name, FLASHATTN_DTYPE_F32, {1, 1}, {2, 2});
}

}  // namespace

std::vector<Case> good_cases() {
  constexpr int32_t kF32 = FLASHATTN_DTYPE_F32;
  constexpr int32_t kF16 = FLASHATTN_DTYPE_F16;
  constexpr int32_t kBf16 = FLASHATTN_DTYPE_BF16;
  std::vector<Case> cases;
  const auto add = [&cases](Case c) { cases.push_back(std::move(c)); };

  Case c = small("plain_f32", kF32, {5, 5}, {7, 7});
  c.heads_kv = 2;
  add(c);

  c = small("grouped_heads_f16", kF16, {3, 3}, {9, 9});
  c.dim = 16;
  add(c);

  c = small("one_kv_head_bf16", kBf16, {3}, {9});
  c.heads_q = 3;
  c.heads_kv = 1;
  c.dim_v = 12;
  add(c);

  c = small("mixed_dtypes", kBf16, {3}, {6});
  c.dtype_kv = kF16;
  c.dtype_o = kF32;
  add(c);

  c = small("causal_bottom_right_f16", kF16, {3, 3}, {8, 8});
  c.causal = 1;
  add(c);

  c = small("causal_top_left_f32", kF32, {3}, {8});
  c.causal = 1;
  c.diag_offset = 3 - 8;
  add(c);

  c = small("causal_rows_without_keys", kF32, {6}, {3});
  c.causal = 1;
  add(c);

  c = small("diag_offset_per_sequence", kF32, {3, 3}, {6, 6});
  c.causal = 1;
  c.diag_offset = 1;
  c.diag_offsets = {0, -4};
  add(c);

  c = small("window_f32", kF32, {6}, {9});
  c.window = true;
  c.left = 3;
  c.right = 1;
  add(c);

  c = small("causal_window_bf16", kBf16, {4}, {9});
  c.causal = 1;
  c.window = true;
  c.left = 2;
  c.right = -1;
  add(c);

  c = small("softcap_f16", kF16, {3}, {7});
  c.softcap = 1.5F;
  add(c);

  c = small("scale_f32", kF32, {2}, {5});
  c.scale = 0.75F;
  add(c);

  c = small("alibi_f32", kF32, {3}, {7});
  c.causal = 1;
  c.alibi = PerHead::kHead;
  add(c);

  c = small("alibi_per_sequence_bf16", kBf16, {2, 2}, {5, 5});
  c.alibi = PerHead::kBatchHead;
  add(c);

  c = small("sinks_bf16", kBf16, {3, 3}, {4, 4});
  c.causal = 1;
  c.sinks = PerHead::kHead;
  add(c);

  c = small("boolean_mask", kF32, {4, 4}, {6, 6});
  c.bias.dtype = FLASHATTN_DTYPE_U8;
  c.bias.broadcast_head = true;
  c.bias.hidden = 0.4;
  add(c);

  c = small("bias_f32", kF32, {3, 3}, {5, 5});
  c.bias.dtype = kF32;
  c.bias.broadcast_batch = true;
  add(c);

  c = small("bias_f16_hidden", kF16, {3}, {6});
  c.bias.dtype = kF16;
  c.bias.broadcast_q = true;
  c.bias.hidden = 0.3;
  add(c);

  c = small("heads_outermost", kF32, {3, 3}, {5, 5});
  c.q.order = c.o.order = Order::kBHS;
  c.k.order = c.v.order = Order::kHBS;
  c.lse_order = Order::kBSH;
  add(c);

  c = small("padded_and_broadcast", kF16, {2, 2}, {4, 4});
  c.q.pad_dim = 8;
  c.k.broadcast_batch = true;
  c.v.pad_inner = 1;
  c.o.pad_outer = 1;
  add(c);

  add(ragged("ragged_f16", kF16));

  c = ragged("ragged_gaps_int64", kF32);
  c.cu_int64 = true;
  c.lead_rows = 1;
  c.tail_rows = 2;
  add(c);

  c = small("ragged_q_dense_kv", kBf16, {1, 3}, {5, 5});
  c.layout_q = FLASHATTN_LAYOUT_RAGGED;
  add(c);

  c = small("used_lengths", kF32, {3, 1}, {2, 6});
  c.seqused_q = c.seqused_kv = true;
  c.spare_kv = 1;
  c.causal = 1;
  add(c);

  add(paged("page_table", FLASHATTN_LAYOUT_PAGED));
  add(paged("page_csr", FLASHATTN_LAYOUT_PAGED_CSR));

  c = paged("page_table_ragged_q", FLASHATTN_LAYOUT_PAGED);
  c.layout_q = FLASHATTN_LAYOUT_RAGGED;
  c.n_q = {1, 4};
  add(c);

  c = small("no_lse", kF32, {2}, {3});
  c.want_lse = false;
  add(c);

  c = small("batch_invariant_below_maxima", kF32, {2}, {5});
  c.flags = FLASHATTN_FLAG_BATCH_INVARIANT;
  c.slack = 2;
  add(c);

  c = small("two_splits", kF32, {1}, {9});
  c.num_splits = 2;
  add(c);
  return cases;
}

std::vector<WrongCase> wrong_cases() {
  constexpr flashattn_status_t kInvalid = FLASHATTN_STATUS_INVALID_ARGUMENT;
  constexpr flashattn_status_t kNull = FLASHATTN_STATUS_NULL_POINTER;
  constexpr flashattn_status_t kData = FLASHATTN_STATUS_INVALID_DATA;
  constexpr flashattn_status_t kUnsupported = FLASHATTN_STATUS_UNSUPPORTED;
  Case ragged_kv = wrong("wrong_cu_seqlens");
  ragged_kv.layout_kv = FLASHATTN_LAYOUT_RAGGED;
  return {
      {wrong("wrong_num_heads_kv"), [](PreparedCall &p) { p.problem.num_heads_kv = 3; }, kInvalid,
       "num_heads_kv is 3"},
      {wrong("wrong_head_dim_v"), [](PreparedCall &p) { p.problem.head_dim_v = 600; }, kUnsupported,
       "head_dim_v is 600"},
      {wrong("wrong_window"), [](PreparedCall &p) { p.problem.window_left = 128; }, kInvalid,
       "window_left is 128"},
      {wrong("wrong_op"), [](PreparedCall &p) { p.problem.op = 1; }, kUnsupported, "op is 1"},
      {wrong("wrong_dtype_kv"), [](PreparedCall &p) { p.problem.dtype_kv = FLASHATTN_DTYPE_I8; },
       kUnsupported, "dtype_kv is 5"},
      {wrong("wrong_softcap"), [](PreparedCall &p) { p.problem.softcap = -2; }, kInvalid, "softcap is -2"},
      {wrong("wrong_kernel"), [](PreparedCall &p) { std::strcpy(p.problem.kernel, "fwd_none"); },
       kUnsupported, "kernel is \"fwd_none\""},
      {wrong("wrong_batch"), [](PreparedCall &p) { p.call.batch = 3; }, kInvalid, "batch is 3"},
      {wrong("wrong_stride"), [](PreparedCall &p) { p.call.q.stride_seq = -1; }, kInvalid,
       "q.stride_seq is -1"},
      {wrong("wrong_k"), [](PreparedCall &p) { p.call.k.data = nullptr; }, kNull, "k.data is NULL"},
      {wrong("wrong_sinks"), [](PreparedCall &p) { p.problem.features |= FLASHATTN_FEATURE_SINKS; }, kNull,
       "sinks.data is NULL"},
      {ragged_kv, [](PreparedCall &p) { p.cu_seqlens_kv()[1] = -1; }, kData, "cu_seqlens_kv[1] is -1"},
      {paged("wrong_seqused_kv", FLASHATTN_LAYOUT_PAGED), [](PreparedCall &p) { p.seqused_kv()[0] = 13; },
       kData, "seqused_kv[0] is 13"},
      {paged("wrong_page", FLASHATTN_LAYOUT_PAGED), [](PreparedCall &p) { p.page_table()[1] = 99; }, kData,
       "page_table[1] is 99"},
  };
}

}  // namespace flashattn::golden
