// SPDX-License-Identifier: Apache-2.0
// One row of the conformance table: everything a problem and a call can say, in terms a reader can check by
// eye.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "flashattn.h"

namespace flashattn::test {

// Dimensions from outermost to innermost, before the head dimension: batch, seqlen, heads. Ragged buffers
// have a batch of one; page pools have the page in batch's place and the slot in seqlen's.
enum class Order { kBSH, kBHS, kSBH, kHBS };

// How one tensor lies in its buffer. Whatever no row covers is poisoned.
struct Arrangement {
  Order order = Order::kBSH;
  int32_t pad_dim = 0;           // elements between the end of one row and the start of the next
  int32_t pad_inner = 0;         // more units of the innermost dimension than used: sliced heads, packed QKV
  int32_t pad_outer = 0;         // more units of the middle dimension than used
  int32_t misalign = 0;          // elements past a 256-byte boundary
  bool broadcast_batch = false;  // stride 0; inputs only
  bool broadcast_seq = false;
  bool broadcast_head = false;
};

struct Contents;

enum class PerHead { kOff, kHead, kBatchHead };

struct BiasCase {
  int32_t dtype = 0;  // 0: none
  bool broadcast_batch = false;
  bool broadcast_head = false;
  bool broadcast_q = false;
  bool broadcast_kv = false;
  bool transposed = false;  // keys outermost
  int32_t pad_kv = 0;
  int32_t misalign = 0;
  double hidden = 0;  // share of elements that are -inf (u8: zero)
};

struct Case {
  std::string name;

  int32_t dtype_q = FLASHATTN_DTYPE_F32;
  int32_t dtype_kv = FLASHATTN_DTYPE_F32;
  int32_t dtype_o = FLASHATTN_DTYPE_F32;
  int32_t heads_q = 2;
  int32_t heads_kv = 2;
  int32_t dim = 32;
  int32_t dim_v = 32;

  // Per sequence: queries and keys that count.
  std::vector<int32_t> n_q = {7};
  std::vector<int32_t> n_k = {19};

  int32_t layout_q = FLASHATTN_LAYOUT_DENSE;
  int32_t layout_kv = FLASHATTN_LAYOUT_DENSE;
  int32_t page_size = 16;
  // Rows that belong to each sequence beyond those that count. Not zero: seqused says how many count.
  // Dense tensors without seqused need equal lengths.
  int32_t spare_q = 0;
  int32_t spare_kv = 0;
  bool seqused_q = false;
  bool seqused_kv = false;
  int32_t lead_rows = 0;  // ragged: rows before cu_seqlens[0]
  int32_t tail_rows = 0;  // ragged: rows past cu_seqlens[batch]
  bool cu_int64 = false;
  bool share_pages = false;  // paged: all sequences name the pages of sequence 0 (a shared prefix)

  float scale = 0;  // 0: the default
  float softcap = 0;
  int32_t causal = 0;
  bool window = false;
  int32_t left = 0;
  int32_t right = 0;
  int32_t diag_offset = 0;
  std::vector<int32_t> diag_offsets;  // per sequence; empty: feature off
  PerHead alibi = PerHead::kOff;
  PerHead sinks = PerHead::kOff;
  float sink_value = 0;  // not 0: every sink is this
  BiasCase bias;

  int32_t num_splits = 0;
  uint64_t flags = 0;  // FLASHATTN_FLAG_* other than CU_SEQLENS_INT64
  int32_t slack = 0;   // how far the problem's maxima lie above this call's sizes
  int32_t threads = 2;

  Arrangement q, k, v, o;
  Order lse_order = Order::kBHS;
  int32_t lse_pad = 0;  // elements between LSE elements
  bool want_lse = true;

  // Contents: mean + spread * bell.
  float q_mean = 0.3F, q_spread = 1.0F;
  float k_mean = 0.2F, k_spread = 1.0F;
  float v_mean = 0.5F, v_spread = 1.0F;

  std::function<void(Contents &)> edit;  // changes the random contents: planted NaN, one-hot keys, zeros

  int32_t verify_every = 1;  // compare every n-th row with the oracle (for big cases)

  int32_t batch() const { return static_cast<int32_t>(n_q.size()); }
  int32_t max_n_q() const;
  int32_t max_n_k() const;
  bool paged() const {
    return layout_kv == FLASHATTN_LAYOUT_PAGED || layout_kv == FLASHATTN_LAYOUT_PAGED_CSR;
  }
  int64_t diagonal(int32_t b) const;  // d of the semantics
};

// Everything that is not default, on one line, for failure reports.
std::string describe(const Case &c);

}  // namespace flashattn::test
