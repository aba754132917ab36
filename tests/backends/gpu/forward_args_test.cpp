// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/forward_args.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

namespace flashattn::gpu {
namespace {

constexpr TileShape kTile{128, 64, 128, 0};

flashattn_problem_t dense_problem() {
  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  problem.dtype_q = problem.dtype_kv = problem.dtype_o = FLASHATTN_DTYPE_BF16;
  problem.num_heads_q = 8;
  problem.num_heads_kv = 2;
  problem.head_dim = problem.head_dim_v = 64;
  problem.max_batch = 4;
  problem.max_seqlen_q = 300;
  problem.max_seqlen_kv = 1000;
  problem.softmax_scale = 0.125F;
  return problem;
}

flashattn_call_t dense_call(char *memory) {
  flashattn_call_t call = FLASHATTN_CALL_INIT;
  call.batch = 3;
  call.seqlen_q = 200;
  call.seqlen_kv = 900;
  call.q = {memory, 102400, 512, 64};
  call.k = {memory + 16, 115200, 128, 64};
  call.v = {memory + 32, 115200, 128, 64};
  call.o = {memory + 48, 102400, 512, 64};
  return call;
}

}  // namespace

TEST_CASE("args: masks fold into one interval and features into flags") {
  alignas(256) char memory[64];
  flashattn_problem_t problem = dense_problem();
  const flashattn_call_t call = dense_call(memory);
  CHECK(describe_call(problem, call).window_left == kUnbounded);
  CHECK(describe_call(problem, call).window_right == kUnbounded);
  problem.causal = 1;
  CHECK(describe_call(problem, call).window_right == 0);
  CHECK(describe_call(problem, call).window_left == kUnbounded);
  problem.features = FLASHATTN_FEATURE_WINDOW;
  problem.window_left = 7;
  CHECK(describe_call(problem, call).window_left == 7);
  problem.causal = 0;
  problem.window_right = -1;
  CHECK(describe_call(problem, call).window_right == kUnbounded);
  problem.window_right = 0;
  CHECK(describe_call(problem, call).window_right == 0);

  CHECK((describe_call(problem, call).flags & kModified) == 0);
  problem.softmax_scale = -1;
  CHECK((describe_call(problem, call).flags & kModified) == kNegativeScale);
  problem.softmax_scale = 1;
  problem.softcap = 2;
  problem.dtype_bias = FLASHATTN_DTYPE_U8;
  problem.features |= FLASHATTN_FEATURE_ALIBI | FLASHATTN_FEATURE_SINKS | FLASHATTN_FEATURE_SEQUSED_Q |
                      FLASHATTN_FEATURE_SEQUSED_KV | FLASHATTN_FEATURE_DIAG_OFFSETS;
  problem.layout_q = FLASHATTN_LAYOUT_RAGGED;
  problem.layout_kv = FLASHATTN_LAYOUT_PAGED_CSR;
  problem.flags = FLASHATTN_FLAG_CU_SEQLENS_INT64;
  CHECK(describe_call(problem, call).flags == (kSoftcap | kBias | kAlibi | kSinks | kUsedQ | kUsedKv |
                                               kDiagOffsets | kRaggedQ | kPagedCsr | kInt64Prefix));
}

TEST_CASE("args: a call is cut into tiles of packed rows, and sections whose K and V fit the cache") {
  alignas(256) char memory[64];
  const flashattn_problem_t problem = dense_problem();
  const flashattn_call_t call = dense_call(memory);
  const SplitRule rule = make_split_rule(problem, kTile, 6);
  ForwardArgs args = describe_call(problem, call);
  CHECK(args.group == 4);
  cut_call(problem, call, kTile, rule, 3 * 900 * 128 * 2, &args);
  CHECK(args.q_tiles == 7);  // 200 queries of 4 heads in tiles of 128
  CHECK(args.section_heads == 3);
  CHECK(args.splits == 1);
  CHECK(args.blocks == 3 * 2 * 7);
  CHECK(args.partial_rows == 3 * 200 * 8);
}

TEST_CASE("args: rows of a ragged buffer that belong to no sequence cannot overflow the partial results") {
  alignas(256) char memory[64];
  flashattn_problem_t problem = dense_problem();
  problem.layout_q = FLASHATTN_LAYOUT_RAGGED;
  problem.max_seqlen_q = 1;
  problem.max_total_q = 100000;
  problem.max_seqlen_kv = 100000;
  flashattn_call_t call = dense_call(memory);
  call.seqlen_q = 1;
  call.seqlen_kv = 100000;
  const SplitRule rule = make_split_rule(problem, kTile, 264);
  for (const int64_t total : {int64_t{3}, int64_t{500}, int64_t{100000}}) {
    call.total_q = total;
    ForwardArgs args = describe_call(problem, call);
    cut_call(problem, call, kTile, rule, 1 << 20, &args);
    if (args.splits > 1) CHECK(args.partial_rows * args.splits <= rule.partial_rows);
    CHECK((args.splits > 1) == (total < 100000));
  }
}

TEST_CASE("args: partial results are carved without overlap, each part aligned") {
  float *o = nullptr;
  float *lse = nullptr;
  CHECK(carve_partials(nullptr, 100, 48, &o, &lse) == 512 + 100 * 48 * 4);
  CHECK(o == nullptr);
  alignas(256) static char memory[512 + 100 * 48 * 4];
  carve_partials(memory, 100, 48, &o, &lse);
  CHECK(static_cast<void *>(lse) == memory);
  CHECK(static_cast<void *>(o) == memory + 512);
}

TEST_CASE("args: alignment counts only the strides that a call uses") {
  alignas(256) char memory[512];
  const flashattn_problem_t problem = dense_problem();
  flashattn_call_t call = dense_call(memory);
  CHECK(misaligned_field(problem, call, 16) == nullptr);
  const auto field = [&](const flashattn_call_t &changed) {
    const char *name = misaligned_field(problem, changed, 16);
    return std::string(name == nullptr ? "" : name);
  };
  flashattn_call_t odd = call;
  odd.q.data = memory + 2;
  CHECK(field(odd) == "q");
  odd = call;
  odd.k.stride_seq += 1;
  CHECK(field(odd) == "k");
  odd = call;
  odd.v.stride_head += 4;
  CHECK(field(odd) == "v");
  odd = call;
  odd.o.stride_batch += 1;
  CHECK(field(odd) == "o");
  odd.batch = 1;
  CHECK(field(odd).empty());
}

TEST_CASE("args: a merge counts all rows") {
  flashattn_combine_args_t args = FLASHATTN_COMBINE_ARGS_INIT;
  args.num_parts = 3;
  args.batch = 70000;
  args.seqlen_q = 70000;
  args.num_heads = 2;
  args.head_dim_v = 5;
  args.dtype_partial = FLASHATTN_DTYPE_F16;
  args.dtype_o = FLASHATTN_DTYPE_F32;
  args.o_partial_stride_part = 11;
  args.lse_partial_stride_part = 12;
  const MergeArgs merge = describe_merge(args);
  CHECK(merge.rows == int64_t{70000} * 70000 * 2);
  CHECK(merge.parts == 3);
  CHECK(merge.o_stride_part == 11);
  CHECK(merge.lse_stride_part == 12);
}

}  // namespace flashattn::gpu
