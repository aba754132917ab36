// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/shape.h"

namespace flashattn::cpu {

Shape make_shape(const flashattn_problem_t &problem) {
  const bool window = (problem.features & FLASHATTN_FEATURE_WINDOW) != 0;
  Shape shape{};
  shape.dtype_q = problem.dtype_q;
  shape.dtype_kv = problem.dtype_kv;
  shape.dtype_o = problem.dtype_o;
  shape.dtype_bias = problem.dtype_bias;
  shape.layout_q = problem.layout_q;
  shape.layout_kv = problem.layout_kv;
  shape.page_size = problem.page_size;
  shape.heads_q = problem.num_heads_q;
  shape.heads_kv = problem.num_heads_kv;
  shape.group = problem.num_heads_q / problem.num_heads_kv;
  shape.dim = problem.head_dim;
  shape.dim_v = problem.head_dim_v;
  shape.scale = problem.softmax_scale;
  shape.softcap = problem.softcap;
  shape.causal = problem.causal != 0;
  shape.window_left = window ? problem.window_left : -1;
  shape.window_right = window ? problem.window_right : -1;
  shape.alibi = (problem.features & FLASHATTN_FEATURE_ALIBI) != 0;
  shape.sinks = (problem.features & FLASHATTN_FEATURE_SINKS) != 0;
  shape.used_q = (problem.features & FLASHATTN_FEATURE_SEQUSED_Q) != 0;
  shape.used_kv = (problem.features & FLASHATTN_FEATURE_SEQUSED_KV) != 0;
  shape.diag_offsets = (problem.features & FLASHATTN_FEATURE_DIAG_OFFSETS) != 0;
  shape.cu_seqlens_int64 = (problem.flags & FLASHATTN_FLAG_CU_SEQLENS_INT64) != 0;
  shape.batch_invariant = (problem.flags & FLASHATTN_FLAG_BATCH_INVARIANT) != 0;
  return shape;
}

const char *dtype_name(int32_t dtype) {
  switch (dtype) {
    case FLASHATTN_DTYPE_F32:
      return "f32";
    case FLASHATTN_DTYPE_F16:
      return "f16";
    case FLASHATTN_DTYPE_BF16:
      return "bf16";
    case FLASHATTN_DTYPE_FP8_E4M3:
      return "fp8_e4m3";
    case FLASHATTN_DTYPE_I8:
      return "i8";
    case FLASHATTN_DTYPE_U8:
      return "u8";
    default:
      return "unknown";
  }
}

}  // namespace flashattn::cpu
