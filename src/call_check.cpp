// SPDX-License-Identifier: Apache-2.0
#include "src/call_check.h"

#include <algorithm>
#include <cinttypes>
#include <iterator>

#include "src/dtype.h"
#include "src/field_check.h"
#include "src/structs.h"
#include "src/tensor_check.h"

namespace flashattn {
namespace {

constexpr int64_t kF32Size = 4;
constexpr int64_t kInt32Size = 4;
constexpr int64_t kInt64Size = 8;

bool ragged_q(const flashattn_problem_t &problem) {
  return problem.layout_q == FLASHATTN_LAYOUT_RAGGED;
}
bool ragged_kv(const flashattn_problem_t &problem) {
  return problem.layout_kv == FLASHATTN_LAYOUT_RAGGED;
}
bool paged(const flashattn_problem_t &problem) {
  return problem.layout_kv >= FLASHATTN_LAYOUT_PAGED;
}
bool has(const flashattn_problem_t &problem, uint64_t feature) {
  return (problem.features & feature) != 0;
}

Status check_reserved(const flashattn_call_t &call) {
  if (call.reserved0 != 0) return invalid_field("reserved0", call.reserved0, "it must be 0");
  if (call.reserved1 != 0) return invalid_field("reserved1", call.reserved1, "it must be 0");
  return check_reserved_words(call.reserved);
}

Status check_size(const char *field, int64_t value, const char *maximum_field, int64_t maximum) {
  if (value >= 0 && value <= maximum) return kOk;
  return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
              "%s is %" PRId64 "; it must be in 0..%" PRId64 ", the problem's %s", field, value, maximum,
              maximum_field);
}

// Sizes of a layout the problem does not have.
Status check_unused_size(const char *field, int64_t value, bool used, const char *rule) {
  return used || value == 0 ? kOk : invalid_field(field, value, rule);
}

// ---------------------------------------------------------------------------------------------- tensors ---

// Rows a KV tensor is read from: sequences or pages, rows or slots.
struct Rows {
  int64_t outer;
  int64_t inner;
};

Rows kv_rows(const flashattn_problem_t &problem, const flashattn_call_t &call) {
  if (paged(problem)) return {call.num_pages, problem.page_size};
  if (ragged_kv(problem)) return {1, call.total_kv};
  return {call.batch, call.seqlen_kv};
}

Rows q_rows(const flashattn_problem_t &problem, const flashattn_call_t &call) {
  if (ragged_q(problem)) return {1, call.total_q};
  return {call.batch, call.seqlen_q};
}

Status check_tensor(const char *name, const flashattn_tensor_t &tensor, int64_t element_size, Rows rows,
                    bool ragged, int64_t heads, int64_t row, Access access) {
  // Ragged tensors have one buffer of rows and no use for stride_batch.
  const Dimension dimensions[] = {{"stride_batch", rows.outer, ragged ? 0 : tensor.stride_batch},
                                  {"stride_seq", rows.inner, tensor.stride_seq},
                                  {"stride_head", heads, tensor.stride_head}};
  return check_array({name, tensor.data, element_size, row, dimensions, 3, access});
}

Status check_tensors(const flashattn_problem_t &problem, const flashattn_call_t &call) {
  const int64_t size_q = dtype_size(problem.dtype_q);
  const int64_t size_kv = dtype_size(problem.dtype_kv);
  const int64_t size_o = dtype_size(problem.dtype_o);
  const Rows q = q_rows(problem, call);
  Rows kv = kv_rows(problem, call);
  const bool q_ragged = ragged_q(problem);
  const bool kv_ragged = ragged_kv(problem);
  // Keys are not read for queries that are not there.
  if (writes_nothing(problem, call)) kv = {0, 0};
  if (Status status = check_tensor("q", call.q, size_q, q, q_ragged, problem.num_heads_q, problem.head_dim,
                                   Access::kInput);
      status != kOk) {
    return status;
  }
  if (Status status = check_tensor("k", call.k, size_kv, kv, kv_ragged, problem.num_heads_kv,
                                   problem.head_dim, Access::kInput);
      status != kOk) {
    return status;
  }
  if (Status status = check_tensor("v", call.v, size_kv, kv, kv_ragged, problem.num_heads_kv,
                                   problem.head_dim_v, Access::kInput);
      status != kOk) {
    return status;
  }
  if (Status status = check_tensor("o", call.o, size_o, q, q_ragged, problem.num_heads_q, problem.head_dim_v,
                                   Access::kOutput);
      status != kOk) {
    return status;
  }
  if (call.lse.data == nullptr) return kOk;
  return check_tensor("lse", call.lse, kF32Size, q, q_ragged, problem.num_heads_q, 1, Access::kOutput);
}

// In place is the overlap a host can see; others are the caller's duty.
Status check_outputs_apart(const flashattn_call_t &call) {
  struct Named {
    const char *name;
    const void *data;
  };
  const Named o = {"o.data", call.o.data};
  const Named lse = {"lse.data", call.lse.data};
  const Named inputs[] = {{"q.data", call.q.data},
                          {"k.data", call.k.data},
                          {"v.data", call.v.data},
                          {"bias.data", call.bias.data}};
  const auto apart = [](const Named &output, const Named &other) {
    if (output.data == nullptr || output.data != other.data) return kOk;
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "%s is %p; it must not overlap %s, which is the same",
                output.name, output.data, other.name);
  };
  for (const Named &input : inputs) {
    if (Status status = apart(o, input); status != kOk) return status;
    if (Status status = apart(lse, input); status != kOk) return status;
  }
  return apart(o, lse);
}

// ------------------------------------------------------------------------------- lengths and page tables ---

// An array of integers: there and aligned when the problem declares it, NULL when it does not. `needed` is
// false when nothing would be read through it.
Status check_integers(const char *field, const void *data, int64_t element_size, bool declared, bool needed,
                      const char *declared_by) {
  if (!declared && data != nullptr) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "%s is %p; it must be NULL without %s in the problem",
                field, data, declared_by);
  }
  if (declared && needed && data == nullptr) {
    return fail(FLASHATTN_STATUS_NULL_POINTER, "%s is NULL; the problem's %s needs it", field, declared_by);
  }
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(element_size) != 0) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
                "%s is %p; it must be aligned to its element, %" PRId64 " bytes", field, data, element_size);
  }
  return kOk;
}

Status check_lengths(const flashattn_problem_t &problem, const flashattn_call_t &call, bool needed) {
  const bool wide = (problem.flags & FLASHATTN_FLAG_CU_SEQLENS_INT64) != 0;
  const int64_t cu_size = wide ? kInt64Size : kInt32Size;
  if (Status status = check_integers("cu_seqlens_q", call.cu_seqlens_q, cu_size, ragged_q(problem), needed,
                                     "layout_q FLASHATTN_LAYOUT_RAGGED");
      status != kOk) {
    return status;
  }
  if (Status status = check_integers("cu_seqlens_kv", call.cu_seqlens_kv, cu_size, ragged_kv(problem), needed,
                                     "layout_kv FLASHATTN_LAYOUT_RAGGED");
      status != kOk) {
    return status;
  }
  if (Status status =
          check_integers("seqused_q", call.seqused_q, kInt32Size, has(problem, FLASHATTN_FEATURE_SEQUSED_Q),
                         needed, "FLASHATTN_FEATURE_SEQUSED_Q");
      status != kOk) {
    return status;
  }
  if (Status status =
          check_integers("seqused_kv", call.seqused_kv, kInt32Size,
                         has(problem, FLASHATTN_FEATURE_SEQUSED_KV), needed, "FLASHATTN_FEATURE_SEQUSED_KV");
      status != kOk) {
    return status;
  }
  return check_integers("diag_offsets", call.diag_offsets, kInt32Size,
                        has(problem, FLASHATTN_FEATURE_DIAG_OFFSETS), needed,
                        "FLASHATTN_FEATURE_DIAG_OFFSETS");
}

Status check_page_table(const flashattn_problem_t &problem, const flashattn_call_t &call, bool needed) {
  constexpr const char *kLayout = "layout_kv FLASHATTN_LAYOUT_PAGED";
  const bool declared = problem.layout_kv == FLASHATTN_LAYOUT_PAGED;
  const bool read = needed && call.page_table_width > 0 && call.num_pages > 0;
  if (Status status = check_integers("page_table", call.page_table, kInt32Size, declared, read, kLayout);
      status != kOk) {
    return status;
  }
  if (!declared) {
    constexpr const char *kRule = "it must be 0 without layout_kv FLASHATTN_LAYOUT_PAGED in the problem";
    if (Status status = check_unused_size("page_table_stride", call.page_table_stride, false, kRule);
        status != kOk) {
      return status;
    }
    return check_unused_size("page_table_width", call.page_table_width, false, kRule);
  }
  if (call.page_table_width < 0) {
    return invalid_field("page_table_width", call.page_table_width, "it must not be negative");
  }
  if (call.page_table_stride < 0) {
    return invalid_field("page_table_stride", call.page_table_stride, "no stride may be negative");
  }
  const Dimension rows[] = {{"page_table_stride", call.batch, call.page_table_stride}};
  return read ? check_array(
                    {"call", call.page_table, kInt32Size, call.page_table_width, rows, 1, Access::kInput})
              : kOk;
}

Status check_page_lists(const flashattn_problem_t &problem, const flashattn_call_t &call, bool needed) {
  constexpr const char *kLayout = "layout_kv FLASHATTN_LAYOUT_PAGED_CSR";
  const bool declared = problem.layout_kv == FLASHATTN_LAYOUT_PAGED_CSR;
  if (Status status = check_integers("page_indptr", call.page_indptr, kInt32Size, declared, needed, kLayout);
      status != kOk) {
    return status;
  }
  return check_integers("page_indices", call.page_indices, kInt32Size, declared, needed && call.num_pages > 0,
                        kLayout);
}

// ------------------------------------------------------------------------------ bias and values per head ---

Status check_bias(const flashattn_problem_t &problem, const flashattn_call_t &call, bool needed) {
  if (problem.dtype_bias == 0) {
    if (call.bias.data == nullptr) return kOk;
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
                "bias.data is %p; it must be NULL without dtype_bias in the problem", call.bias.data);
  }
  const Dimension dimensions[] = {{"stride_batch", needed ? call.batch : 0, call.bias.stride_batch},
                                  {"stride_head", problem.num_heads_q, call.bias.stride_head},
                                  {"stride_q", call.seqlen_q, call.bias.stride_q},
                                  {"stride_kv", call.seqlen_kv, call.bias.stride_kv}};
  return check_array(
      {"bias", call.bias.data, dtype_size(problem.dtype_bias), 1, dimensions, 4, Access::kInput});
}

Status check_per_head(const char *name, const flashattn_per_head_t &values,
                      const flashattn_problem_t &problem, const flashattn_call_t &call, bool declared,
                      bool needed, const char *declared_by) {
  if (!declared) {
    if (values.data == nullptr) return kOk;
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "%s.data is %p; it must be NULL without %s in the problem",
                name, static_cast<const void *>(values.data), declared_by);
  }
  const Dimension dimensions[] = {{"stride_batch", needed ? call.batch : 0, values.stride_batch},
                                  {"stride_head", problem.num_heads_q, values.stride_head}};
  return check_array({name, values.data, kF32Size, 1, dimensions, 2, Access::kInput});
}

Status check_head_values(const flashattn_problem_t &problem, const flashattn_call_t &call, bool needed) {
  if (Status status =
          check_per_head("alibi_slopes", call.alibi_slopes, problem, call,
                         has(problem, FLASHATTN_FEATURE_ALIBI), needed, "FLASHATTN_FEATURE_ALIBI");
      status != kOk) {
    return status;
  }
  if (Status status =
          check_per_head("sinks", call.sinks, problem, call, has(problem, FLASHATTN_FEATURE_SINKS), needed,
                         "FLASHATTN_FEATURE_SINKS");
      status != kOk) {
    return status;
  }
  constexpr const char *kEightBit = "an 8-bit dtype";
  if (Status status = check_per_head("descale_q", call.descale_q, problem, call, false, needed, kEightBit);
      status != kOk) {
    return status;
  }
  if (Status status = check_per_head("descale_k", call.descale_k, problem, call, false, needed, kEightBit);
      status != kOk) {
    return status;
  }
  return check_per_head("descale_v", call.descale_v, problem, call, false, needed, kEightBit);
}

// -------------------------------------------------------------------------------------------- gradients ---

Status check_no_gradients(const flashattn_call_t &call) {
  const struct {
    const char *name;
    const void *data;
    int64_t strides[4];
  } gradients[] = {
      {"grad_o",
       call.grad_o.data,
       {call.grad_o.stride_batch, call.grad_o.stride_seq, call.grad_o.stride_head, 0}},
      {"grad_q",
       call.grad_q.data,
       {call.grad_q.stride_batch, call.grad_q.stride_seq, call.grad_q.stride_head, 0}},
      {"grad_k",
       call.grad_k.data,
       {call.grad_k.stride_batch, call.grad_k.stride_seq, call.grad_k.stride_head, 0}},
      {"grad_v",
       call.grad_v.data,
       {call.grad_v.stride_batch, call.grad_v.stride_seq, call.grad_v.stride_head, 0}},
      {"grad_bias",
       call.grad_bias.data,
       {call.grad_bias.stride_batch, call.grad_bias.stride_head, call.grad_bias.stride_q,
        call.grad_bias.stride_kv}},
      {"grad_sinks", call.grad_sinks, {0, 0, 0, 0}},
  };
  for (const auto &gradient : gradients) {
    if (gradient.data != nullptr) {
      return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "%s is %p; it must be NULL with op FLASHATTN_OP_FORWARD",
                  gradient.name, gradient.data);
    }
    const auto *used = std::find_if(std::begin(gradient.strides), std::end(gradient.strides),
                                    [](int64_t stride) { return stride != 0; });
    if (used != std::end(gradient.strides)) {
      return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
                  "%s has a stride of %" PRId64 "; it must be 0 with op FLASHATTN_OP_FORWARD", gradient.name,
                  *used);
    }
  }
  return kOk;
}

}  // namespace

Status check_call_sizes(const flashattn_problem_t &problem, flashattn_call_t *call) {
  if (Status status = check_size("batch", call->batch, "max_batch", problem.max_batch); status != kOk)
    return status;
  if (Status status = check_size("seqlen_q", call->seqlen_q, "max_seqlen_q", problem.max_seqlen_q);
      status != kOk) {
    return status;
  }
  if (Status status = check_size("seqlen_kv", call->seqlen_kv, "max_seqlen_kv", problem.max_seqlen_kv);
      status != kOk) {
    return status;
  }
  if (Status status = check_unused_size("total_q", call->total_q, ragged_q(problem),
                                        "it must be 0 unless the problem's layout_q is ragged");
      status != kOk) {
    return status;
  }
  if (Status status = check_unused_size("total_kv", call->total_kv, ragged_kv(problem),
                                        "it must be 0 unless the problem's layout_kv is ragged");
      status != kOk) {
    return status;
  }
  if (Status status = check_unused_size("num_pages", call->num_pages, paged(problem),
                                        "it must be 0 unless the problem's layout_kv is paged");
      status != kOk) {
    return status;
  }
  if (Status status = check_size("total_q", call->total_q, "max_total_q", problem.max_total_q);
      status != kOk) {
    return status;
  }
  if (Status status = check_size("total_kv", call->total_kv, "max_total_kv", problem.max_total_kv);
      status != kOk) {
    return status;
  }
  if (Status status = check_size("num_pages", call->num_pages, "max_pages", problem.max_pages);
      status != kOk) {
    return status;
  }
  if (ragged_q(problem) && call->seqlen_q == 0) call->seqlen_q = problem.max_seqlen_q;
  if (problem.layout_kv != FLASHATTN_LAYOUT_DENSE && call->seqlen_kv == 0)
    call->seqlen_kv = problem.max_seqlen_kv;
  return kOk;
}

bool writes_nothing(const flashattn_problem_t &problem, const flashattn_call_t &call) {
  return call.batch == 0 || (ragged_q(problem) ? call.total_q == 0 : call.seqlen_q == 0);
}

Status check_call(const flashattn_problem_t &problem, const flashattn_call_t *source,
                  flashattn_call_t *call) {
  if (Status status = read_struct("call", source, call); status != kOk) return status;
  if (Status status = check_reserved(*call); status != kOk) return status;
  if (Status status = check_call_sizes(problem, call); status != kOk) return status;
  const bool needed = !writes_nothing(problem, *call);
  if (Status status = check_tensors(problem, *call); status != kOk) return status;
  if (Status status = check_outputs_apart(*call); status != kOk) return status;
  if (Status status = check_lengths(problem, *call, needed); status != kOk) return status;
  if (Status status = check_page_table(problem, *call, needed); status != kOk) return status;
  if (Status status = check_page_lists(problem, *call, needed); status != kOk) return status;
  if (Status status = check_bias(problem, *call, needed); status != kOk) return status;
  if (Status status = check_head_values(problem, *call, needed); status != kOk) return status;
  return check_no_gradients(*call);
}

}  // namespace flashattn
