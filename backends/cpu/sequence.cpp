// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/sequence.h"

#include <algorithm>
#include <cinttypes>
#include <limits>

#include "backends/cpu/convert.h"
#include "src/dtype.h"

namespace flashattn::cpu {
namespace {

int64_t prefix(const Shape &shape, const void *cu_seqlens, int64_t index) {
  if (shape.cu_seqlens_int64) return static_cast<const int64_t *>(cu_seqlens)[index];
  return static_cast<const int32_t *>(cu_seqlens)[index];
}

bool is_paged(const Shape &shape) {
  return shape.layout_kv == FLASHATTN_LAYOUT_PAGED || shape.layout_kv == FLASHATTN_LAYOUT_PAGED_CSR;
}

const char *at_offset(const void *data, int64_t elements, int64_t element_size) {
  return static_cast<const char *>(data) + elements * element_size;
}

// Entries of a page table from `first` on; NULL, where a call has no pages to look up, stays NULL.
const int32_t *pages_from(const int32_t *pages, int64_t first) {
  return pages == nullptr ? nullptr : pages + first;
}

// Row of Q, O or LSE.
int64_t q_offset(const Shape &shape, const flashattn_tensor_t &tensor, const Sequence &sequence, int64_t i,
                 int32_t head) {
  const int64_t batch = shape.layout_q == FLASHATTN_LAYOUT_DENSE ? sequence.index * tensor.stride_batch : 0;
  return batch + (sequence.first_q + i) * tensor.stride_seq + head * tensor.stride_head;
}

// cu_seqlens begins at or above 0, never falls and ends within total.
Status check_prefix(const Shape &shape, const char *name, const void *cu_seqlens, int32_t batch,
                    const char *total_name, int64_t total) {
  int64_t last = 0;
  for (int64_t b = 0; b <= batch; ++b) {
    const int64_t value = prefix(shape, cu_seqlens, b);
    if (value < last) {
      return fail(FLASHATTN_STATUS_INVALID_DATA,
                  b == 0 ? "%s[%" PRId64 "] is %" PRId64 "; it must be at least %" PRId64
                         : "%s[%" PRId64 "] is %" PRId64
                           "; it must not fall below the entry before it, %" PRId64,
                  name, b, value, last);
    }
    if (value > total) {
      return fail(FLASHATTN_STATUS_INVALID_DATA, "%s[%" PRId64 "] is %" PRId64 "; %s is %" PRId64, name, b,
                  value, total_name, total);
    }
    last = value;
  }
  return kOk;
}

// The rows a sequence has and how many of them are used; used is nullptr when all are.
Status check_length(const char *rows_name, int64_t b, int64_t rows, const char *used_name,
                    const int32_t *used, const char *bound_name, int64_t bound) {
  if (used != nullptr) {
    if (used[b] < 0 || used[b] > rows) {
      return fail(FLASHATTN_STATUS_INVALID_DATA,
                  "%s[%" PRId64 "] is %d; it must be within 0..%" PRId64 ", the rows of that sequence",
                  used_name, b, used[b], rows);
    }
    if (used[b] > bound) {
      return fail(FLASHATTN_STATUS_INVALID_DATA, "%s[%" PRId64 "] is %d; %s allows %" PRId64, used_name, b,
                  used[b], bound_name, bound);
    }
  } else if (rows > bound) {
    return fail(FLASHATTN_STATUS_INVALID_DATA,
                "%s gives sequence %" PRId64 " %" PRId64 " rows; %s allows %" PRId64, rows_name, b, rows,
                bound_name, bound);
  }
  return kOk;
}

// All of it before any page is looked up: only the last entry says how many pages there are.
Status check_indptr(const int32_t *indptr, int64_t batch) {
  int32_t least = 0;
  for (int64_t b = 0; b <= batch; ++b) {
    if (indptr[b] < least) {
      return fail(FLASHATTN_STATUS_INVALID_DATA,
                  "page_indptr[%" PRId64 "] is %d; it must be at least %d and never fall", b, indptr[b],
                  least);
    }
    least = indptr[b];
  }
  return kOk;
}

// pages may be NULL where there is none to look up: without used keys, or without a pool.
Status check_pages(const char *name, const int32_t *pages, int64_t first, int64_t count, int64_t num_pages) {
  if (count > 0 && num_pages == 0) {
    return fail(FLASHATTN_STATUS_INVALID_DATA,
                "num_pages is 0; seqused_kv needs %s[%" PRId64 "], and a pool without pages has none", name,
                first);
  }
  for (int64_t p = 0; p < count; ++p) {
    const int32_t page = pages[first + p];
    if (page < 0 || page >= num_pages) {
      return fail(FLASHATTN_STATUS_INVALID_DATA,
                  "%s[%" PRId64 "] is %d; it must be within 0..%" PRId64 ", the pages of the pool", name,
                  first + p, page, num_pages - 1);
    }
  }
  return kOk;
}

// A bound of the call when it gives one, else the problem's maximum.
struct Bound {
  const char *name;
  int64_t value;
};

Bound bound_of(bool dense, const char *call_name, int32_t call_value, const char *maximum_name,
               int32_t maximum) {
  if (dense || call_value > 0) return {call_name, call_value};
  return {maximum_name, maximum};
}

Status check_queries(const Shape &shape, const flashattn_problem_t &problem, const flashattn_call_t &call) {
  const bool ragged = shape.layout_q == FLASHATTN_LAYOUT_RAGGED;
  if (!ragged && !shape.used_q) return kOk;
  if (ragged) {
    const Status status =
        check_prefix(shape, "cu_seqlens_q", call.cu_seqlens_q, call.batch, "total_q", call.total_q);
    if (status != kOk) return status;
  }
  const Bound bound = bound_of(!ragged, "seqlen_q", call.seqlen_q, "max_seqlen_q", problem.max_seqlen_q);
  for (int64_t b = 0; b < call.batch; ++b) {
    const int64_t rows = ragged
                             ? prefix(shape, call.cu_seqlens_q, b + 1) - prefix(shape, call.cu_seqlens_q, b)
                             : call.seqlen_q;
    const Status status = check_length("cu_seqlens_q", b, rows, "seqused_q",
                                       shape.used_q ? call.seqused_q : nullptr, bound.name, bound.value);
    if (status != kOk) return status;
  }
  return kOk;
}

Status check_keys(const Shape &shape, const flashattn_problem_t &problem, const flashattn_call_t &call) {
  const bool dense = shape.layout_kv == FLASHATTN_LAYOUT_DENSE;
  if (dense && !shape.used_kv) return kOk;
  if (shape.layout_kv == FLASHATTN_LAYOUT_RAGGED) {
    const Status status =
        check_prefix(shape, "cu_seqlens_kv", call.cu_seqlens_kv, call.batch, "total_kv", call.total_kv);
    if (status != kOk) return status;
  }
  if (shape.layout_kv == FLASHATTN_LAYOUT_PAGED_CSR) {
    const Status status = check_indptr(call.page_indptr, call.batch);
    if (status != kOk) return status;
  }
  const Bound bound = bound_of(dense, "seqlen_kv", call.seqlen_kv, "max_seqlen_kv", problem.max_seqlen_kv);
  for (int64_t b = 0; b < call.batch; ++b) {
    int64_t rows = call.seqlen_kv;
    const int32_t *pages = nullptr;
    int64_t first_page = 0;
    switch (shape.layout_kv) {
      case FLASHATTN_LAYOUT_RAGGED:
        rows = prefix(shape, call.cu_seqlens_kv, b + 1) - prefix(shape, call.cu_seqlens_kv, b);
        break;
      case FLASHATTN_LAYOUT_PAGED:
        rows = static_cast<int64_t>(call.page_table_width) * shape.page_size;
        first_page = b * call.page_table_stride;
        pages = call.page_table;
        break;
      case FLASHATTN_LAYOUT_PAGED_CSR:
        first_page = call.page_indptr[b];
        rows = (call.page_indptr[b + 1] - first_page) * shape.page_size;
        pages = call.page_indices;
        break;
      default:
        break;
    }
    const Status status = check_length("cu_seqlens_kv", b, rows, "seqused_kv",
                                       shape.used_kv ? call.seqused_kv : nullptr, bound.name, bound.value);
    if (status != kOk) return status;
    if (is_paged(shape)) {
      const int64_t n_k = call.seqused_kv[b];
      const Status paged =
          check_pages(shape.layout_kv == FLASHATTN_LAYOUT_PAGED ? "page_table" : "page_indices", pages,
                      first_page, (n_k + shape.page_size - 1) / shape.page_size, call.num_pages);
      if (paged != kOk) return paged;
    }
  }
  return kOk;
}

}  // namespace

Sequence sequence_at(const Shape &shape, const flashattn_call_t &call, int64_t b) {
  Sequence sequence{};
  sequence.index = b;
  sequence.n_q = call.seqlen_q;
  if (shape.layout_q == FLASHATTN_LAYOUT_RAGGED) {
    sequence.first_q = prefix(shape, call.cu_seqlens_q, b);
    sequence.n_q = prefix(shape, call.cu_seqlens_q, b + 1) - sequence.first_q;
  }
  if (shape.used_q) sequence.n_q = call.seqused_q[b];
  sequence.n_k = call.seqlen_kv;
  switch (shape.layout_kv) {
    case FLASHATTN_LAYOUT_RAGGED:
      sequence.first_kv = prefix(shape, call.cu_seqlens_kv, b);
      sequence.n_k = prefix(shape, call.cu_seqlens_kv, b + 1) - sequence.first_kv;
      break;
    case FLASHATTN_LAYOUT_PAGED:
      sequence.pages = pages_from(call.page_table, b * call.page_table_stride);
      break;
    case FLASHATTN_LAYOUT_PAGED_CSR:
      sequence.pages = pages_from(call.page_indices, call.page_indptr[b]);
      break;
    default:
      break;
  }
  if (shape.used_kv) sequence.n_k = call.seqused_kv[b];
  sequence.diagonal = sequence.n_k - sequence.n_q + call.diag_offset;
  if (shape.diag_offsets) sequence.diagonal += call.diag_offsets[b];
  return sequence;
}

Status check_sequences(const Shape &shape, const flashattn_problem_t &problem, const flashattn_call_t &call) {
  const Status status = check_queries(shape, problem, call);
  return status != kOk ? status : check_keys(shape, problem, call);
}

const void *q_row(const Shape &shape, const flashattn_call_t &call, const Sequence &sequence, int64_t i,
                  int32_t head) {
  return at_offset(call.q.data, q_offset(shape, call.q, sequence, i, head), dtype_size(shape.dtype_q));
}

void *o_row(const Shape &shape, const flashattn_call_t &call, const Sequence &sequence, int64_t i,
            int32_t head) {
  return const_cast<char *>(
      at_offset(call.o.data, q_offset(shape, call.o, sequence, i, head), dtype_size(shape.dtype_o)));
}

float *lse_element(const Shape &shape, const flashattn_call_t &call, const Sequence &sequence, int64_t i,
                   int32_t head) {
  return static_cast<float *>(call.lse.data) + q_offset(shape, call.lse, sequence, i, head);
}

const void *kv_row(const Shape &shape, const flashattn_tensor_t &tensor, const Sequence &sequence, int64_t j,
                   int32_t head) {
  int64_t offset = head * tensor.stride_head;
  if (is_paged(shape)) {
    offset +=
        sequence.pages[j / shape.page_size] * tensor.stride_batch + j % shape.page_size * tensor.stride_seq;
  } else {
    offset += (sequence.first_kv + j) * tensor.stride_seq;
    if (shape.layout_kv == FLASHATTN_LAYOUT_DENSE) offset += sequence.index * tensor.stride_batch;
  }
  return at_offset(tensor.data, offset, dtype_size(shape.dtype_kv));
}

void kv_rows(const Shape &shape, const flashattn_tensor_t &tensor, const Sequence &sequence, int32_t head,
             int64_t j, int32_t n, const char **rows) {
  const int64_t step = tensor.stride_seq * dtype_size(shape.dtype_kv);
  for (int32_t done = 0; done < n;) {
    // To the end of the page, where there are pages.
    const int64_t left = is_paged(shape) ? shape.page_size - (j + done) % shape.page_size : n;
    const auto run = static_cast<int32_t>(std::min<int64_t>(n - done, left));
    const char *row = static_cast<const char *>(kv_row(shape, tensor, sequence, j + done, head));
    for (int32_t r = 0; r < run; ++r) rows[done + r] = row + r * step;
    done += run;
  }
}

float per_head(const flashattn_per_head_t &values, const Sequence &sequence, int32_t head) {
  return values.data[sequence.index * values.stride_batch + head * values.stride_head];
}

void bias_row(const Shape &shape, const flashattn_bias_t &bias, const Sequence &sequence, int32_t head,
              int64_t i, int64_t j, int32_t n, float *out, int64_t stride) {
  const int64_t size = dtype_size(shape.dtype_bias);
  const int64_t offset =
      sequence.index * bias.stride_batch + head * bias.stride_head + i * bias.stride_q + j * bias.stride_kv;
  const char *element = at_offset(bias.data, offset, size);
  const int64_t step = bias.stride_kv * size;
  for (int32_t r = 0; r < n; ++r, element += step) {
    if (shape.dtype_bias == FLASHATTN_DTYPE_U8) {
      out[r * stride] = *element != 0 ? 0.0F : -std::numeric_limits<float>::infinity();
    } else {
      out[r * stride] = load_element(shape.dtype_bias, element);
    }
  }
}

}  // namespace flashattn::cpu
