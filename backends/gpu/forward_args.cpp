// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/forward_args.h"

#include <algorithm>

namespace flashattn::gpu {
namespace {

TensorArg tensor_arg(const flashattn_tensor_t &tensor) {
  return {tensor.data, tensor.stride_batch, tensor.stride_seq, tensor.stride_head};
}

PerHeadArg per_head_arg(const flashattn_per_head_t &values) {
  return {values.data, values.stride_batch, values.stride_head};
}

bool has(const flashattn_problem_t &problem, uint64_t feature) {
  return (problem.features & feature) != 0;
}

uint32_t flags_of(const flashattn_problem_t &problem) {
  uint32_t flags = 0;
  const auto set = [&flags](bool condition, uint32_t flag) { flags |= condition ? flag : 0; };
  set(problem.layout_q == FLASHATTN_LAYOUT_RAGGED, kRaggedQ);
  set(problem.layout_kv == FLASHATTN_LAYOUT_RAGGED, kRaggedKv);
  set(problem.layout_kv == FLASHATTN_LAYOUT_PAGED, kPagedTable);
  set(problem.layout_kv == FLASHATTN_LAYOUT_PAGED_CSR, kPagedCsr);
  set((problem.flags & FLASHATTN_FLAG_CU_SEQLENS_INT64) != 0, kInt64Prefix);
  set(has(problem, FLASHATTN_FEATURE_SEQUSED_Q), kUsedQ);
  set(has(problem, FLASHATTN_FEATURE_SEQUSED_KV), kUsedKv);
  set(has(problem, FLASHATTN_FEATURE_DIAG_OFFSETS), kDiagOffsets);
  set(problem.softcap > 0, kSoftcap);
  set(has(problem, FLASHATTN_FEATURE_ALIBI), kAlibi);
  set(problem.dtype_bias != 0, kBias);
  set(has(problem, FLASHATTN_FEATURE_SINKS), kSinks);
  set(problem.softmax_scale < 0, kNegativeScale);
  return flags;
}

// -1 is unbounded.
int64_t window_end(int32_t value) {
  return value < 0 ? kUnbounded : value;
}

bool multiple(int64_t value, int64_t bytes) {
  return value % bytes == 0;
}

bool aligned(const flashattn_tensor_t &tensor, int64_t element, int64_t bytes, bool batch, bool seq,
             bool head) {
  return multiple(static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.data) & 0xffff), bytes) &&
         (!batch || multiple(tensor.stride_batch * element, bytes)) &&
         (!seq || multiple(tensor.stride_seq * element, bytes)) &&
         (!head || multiple(tensor.stride_head * element, bytes));
}

}  // namespace

int64_t element_size(int32_t dtype) {
  switch (dtype) {
    case FLASHATTN_DTYPE_F32:
      return 4;
    case FLASHATTN_DTYPE_F16:
    case FLASHATTN_DTYPE_BF16:
      return 2;
    case FLASHATTN_DTYPE_U8:
      return 1;
    default:
      return 0;
  }
}

ForwardArgs describe_call(const flashattn_problem_t &problem, const flashattn_call_t &call) {
  const bool window = has(problem, FLASHATTN_FEATURE_WINDOW);
  ForwardArgs args{};
  args.q = tensor_arg(call.q);
  args.k = tensor_arg(call.k);
  args.v = tensor_arg(call.v);
  args.o = tensor_arg(call.o);
  args.lse = tensor_arg(call.lse);
  args.bias = {call.bias.data, call.bias.stride_batch, call.bias.stride_head, call.bias.stride_q,
               call.bias.stride_kv};
  args.alibi = per_head_arg(call.alibi_slopes);
  args.sinks = per_head_arg(call.sinks);
  args.cu_q = call.cu_seqlens_q;
  args.cu_kv = call.cu_seqlens_kv;
  args.used_q = call.seqused_q;
  args.used_kv = call.seqused_kv;
  args.diag_offsets = call.diag_offsets;
  const bool csr = problem.layout_kv == FLASHATTN_LAYOUT_PAGED_CSR;
  args.page_table = csr ? call.page_indices : call.page_table;
  args.page_indptr = call.page_indptr;
  args.page_table_stride = call.page_table_stride;
  args.page_table_width = call.page_table_width;
  args.total_q = call.total_q;
  args.total_kv = call.total_kv;
  args.num_pages = call.num_pages;
  args.window_left = window ? window_end(problem.window_left) : kUnbounded;
  args.window_right = problem.causal != 0 ? 0 : (window ? window_end(problem.window_right) : kUnbounded);
  args.diag_offset = call.diag_offset;
  args.batch = call.batch;
  args.seqlen_q = call.seqlen_q;
  args.seqlen_kv = call.seqlen_kv;
  args.bound_q = call.seqlen_q;
  args.bound_kv = call.seqlen_kv;
  args.heads_q = problem.num_heads_q;
  args.heads_kv = problem.num_heads_kv;
  args.group = problem.num_heads_q / problem.num_heads_kv;
  args.dim = problem.head_dim;
  args.dim_v = problem.head_dim_v;
  args.page_size = problem.page_size;
  args.dtype_q = problem.dtype_q;
  args.dtype_kv = problem.dtype_kv;
  args.dtype_o = problem.dtype_o;
  args.dtype_bias = problem.dtype_bias;
  args.flags = flags_of(problem);
  args.scale = problem.softmax_scale;
  args.softcap = problem.softcap;
  return args;
}

void cut_call(const flashattn_problem_t &problem, const flashattn_call_t &call, const TileShape &tile,
              const SplitRule &rule, int64_t cache_bytes, ForwardArgs *args) {
  const bool ragged = problem.layout_q == FLASHATTN_LAYOUT_RAGGED;
  const int64_t seqlen_q = ragged ? std::min<int64_t>(call.seqlen_q, call.total_q) : call.seqlen_q;
  const int64_t pairs = static_cast<int64_t>(call.batch) * problem.num_heads_kv;
  const int64_t tiles = tiles_of(seqlen_q, args->group, tile.rows);
  args->partial_rows = (ragged ? call.total_q : int64_t{call.batch} * call.seqlen_q) * problem.num_heads_q;
  args->splits = choose_splits(rule, pairs * tiles, call.seqlen_kv);
  // A ragged buffer may have rows that belong to no sequence; they take room in the partial results too.
  if (args->splits > 1 && args->partial_rows > rule.partial_rows / args->splits) {
    args->splits = static_cast<int32_t>(
        std::clamp<int64_t>(rule.partial_rows / std::max<int64_t>(args->partial_rows, 1), 1, args->splits));
  }
  args->q_tiles = static_cast<int32_t>(tiles);
  const int64_t pair_bytes = std::max<int64_t>(
      int64_t{call.seqlen_kv} * (problem.head_dim + problem.head_dim_v) * element_size(problem.dtype_kv), 1);
  args->section_heads = static_cast<int32_t>(std::clamp<int64_t>(cache_bytes / pair_bytes, 1, INT32_MAX / 2));
  args->blocks = pairs * tiles * args->splits;
}

size_t carve_partials(void *workspace, int64_t rows, int32_t dim_v, float **partial_o, float **partial_lse) {
  const auto round_up = [](size_t bytes) {
    return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  };
  const size_t lse_bytes = round_up(static_cast<size_t>(rows) * sizeof(float));
  const size_t o_bytes = round_up(static_cast<size_t>(rows) * static_cast<size_t>(dim_v) * sizeof(float));
  if (workspace != nullptr) {
    *partial_lse = static_cast<float *>(workspace);
    *partial_o = reinterpret_cast<float *>(static_cast<char *>(workspace) + lse_bytes);
  }
  return lse_bytes + o_bytes;
}

MergeArgs describe_merge(const flashattn_combine_args_t &args) {
  MergeArgs merge{};
  merge.o_partial = tensor_arg(args.o_partial);
  merge.lse_partial = tensor_arg(args.lse_partial);
  merge.o = tensor_arg(args.o);
  merge.lse = tensor_arg(args.lse);
  merge.o_stride_part = args.o_partial_stride_part;
  merge.lse_stride_part = args.lse_partial_stride_part;
  merge.rows = static_cast<int64_t>(args.batch) * args.seqlen_q * args.num_heads;
  merge.parts = args.num_parts;
  merge.seqlen_q = args.seqlen_q;
  merge.heads = args.num_heads;
  merge.dim_v = args.head_dim_v;
  merge.dtype_partial = args.dtype_partial;
  merge.dtype_o = args.dtype_o;
  return merge;
}

const char *misaligned_field(const flashattn_problem_t &problem, const flashattn_call_t &call,
                             int64_t bytes) {
  const bool ragged_q = problem.layout_q == FLASHATTN_LAYOUT_RAGGED;
  const bool ragged_kv = problem.layout_kv == FLASHATTN_LAYOUT_RAGGED;
  const bool dense_kv = problem.layout_kv == FLASHATTN_LAYOUT_DENSE;
  const bool batches = call.batch > 1;
  const bool q_rows = ragged_q ? call.total_q > 1 : call.seqlen_q > 1;
  const bool kv_rows = dense_kv ? call.seqlen_kv > 1 : true;
  const bool heads_q = problem.num_heads_q > 1;
  const bool heads_kv = problem.num_heads_kv > 1;
  const bool batch_q = !ragged_q && batches;
  const bool batch_kv = !ragged_kv && (batches || !dense_kv);
  const int64_t size_kv = element_size(problem.dtype_kv);
  if (!aligned(call.q, element_size(problem.dtype_q), bytes, batch_q, q_rows, heads_q)) return "q";
  if (!aligned(call.o, element_size(problem.dtype_o), bytes, batch_q, q_rows, heads_q)) return "o";
  if (!aligned(call.k, size_kv, bytes, batch_kv, kv_rows, heads_kv)) return "k";
  if (!aligned(call.v, size_kv, bytes, batch_kv, kv_rows, heads_kv)) return "v";
  return nullptr;
}

}  // namespace flashattn::gpu
