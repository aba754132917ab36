// SPDX-License-Identifier: Apache-2.0
// What the CPU kernels keep of a problem: everything but the maxima.
#pragma once

#include <cstdint>

#include "flashattn.h"

namespace flashattn::cpu {

struct Shape {
  int32_t dtype_q;
  int32_t dtype_kv;
  int32_t dtype_o;
  int32_t dtype_bias;  // 0 = no bias
  int32_t layout_q;
  int32_t layout_kv;
  int32_t page_size;
  int32_t heads_q;
  int32_t heads_kv;
  int32_t group;  // query heads per KV head
  int32_t dim;    // of Q and K
  int32_t dim_v;  // of V and O
  float scale;
  float softcap;  // 0 = off
  bool causal;
  int32_t window_left;   // -1 = unbounded
  int32_t window_right;  // -1 = unbounded
  bool alibi;
  bool sinks;
  bool used_q;
  bool used_kv;
  bool diag_offsets;
  bool cu_seqlens_int64;
  bool batch_invariant;
};

Shape make_shape(const flashattn_problem_t &problem);

// "f32", "bf16", ... for messages.
const char *dtype_name(int32_t dtype);

}  // namespace flashattn::cpu
