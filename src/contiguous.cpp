// SPDX-License-Identifier: Apache-2.0
// flashattn_call_contiguous: strides from sizes.
#include <algorithm>
#include <cinttypes>

#include "src/barrier.h"
#include "src/call_check.h"
#include "src/problem.h"
#include "src/structs.h"

namespace flashattn {
namespace {

bool is_paged(const flashattn_problem_t &problem) {
  return problem.layout_kv >= FLASHATTN_LAYOUT_PAGED;
}

// [outer, inner, heads, row], heads innermost. `with_outer` is false for ragged tensors, which have no batch
// stride.
void fill_rows(int64_t inner, int64_t heads, int64_t row, bool with_outer, flashattn_tensor_t *tensor) {
  tensor->stride_head = row;
  tensor->stride_seq = heads * row;
  tensor->stride_batch = with_outer ? inner * heads * row : 0;
}

Status contiguous(const flashattn_problem_t *source_problem, flashattn_call_t *target) {
  auto problem = make_struct<flashattn_problem_t>();
  if (Status status = normalise_problem(source_problem, &problem); status != kOk) return status;
  auto call = make_struct<flashattn_call_t>();
  if (Status status = read_struct("call", target, &call); status != kOk) return status;
  // The sizes are within the maxima, whose products normalise_problem keeps far inside int64.
  flashattn_call_t sizes = call;
  if (Status status = check_call_sizes(problem, &sizes); status != kOk) return status;

  const bool ragged_q = problem.layout_q == FLASHATTN_LAYOUT_RAGGED;
  const bool ragged_kv = problem.layout_kv == FLASHATTN_LAYOUT_RAGGED;
  const int64_t inner_kv = is_paged(problem) ? problem.page_size : call.seqlen_kv;
  fill_rows(call.seqlen_q, problem.num_heads_q, problem.head_dim, !ragged_q, &call.q);
  fill_rows(inner_kv, problem.num_heads_kv, problem.head_dim, !ragged_kv, &call.k);
  fill_rows(inner_kv, problem.num_heads_kv, problem.head_dim_v, !ragged_kv, &call.v);
  fill_rows(call.seqlen_q, problem.num_heads_q, problem.head_dim_v, !ragged_q, &call.o);

  const int64_t lse_rows = ragged_q ? call.total_q : call.seqlen_q;
  call.lse.stride_seq = 1;
  call.lse.stride_head = lse_rows;
  call.lse.stride_batch = ragged_q ? 0 : problem.num_heads_q * lse_rows;
  call.page_table_stride = problem.layout_kv == FLASHATTN_LAYOUT_PAGED ? call.page_table_width : 0;
  if (call.page_table_stride < 0) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "page_table_width is %d; it must not be negative",
                call.page_table_width);
  }
  write_struct(call, target);
  return kOk;
}

}  // namespace
}  // namespace flashattn

extern "C" flashattn_status_t flashattn_call_contiguous(const flashattn_problem_t *problem,
                                                        flashattn_call_t *call) {
  return flashattn::barrier([&] { return flashattn::contiguous(problem, call); });
}
