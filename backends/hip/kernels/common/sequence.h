// SPDX-License-Identifier: Apache-2.0
// One sequence of a call as a kernel sees it: where its rows lie and how many there are, whatever the layout.
// Lengths are read here, on the device. A sequence that breaks a rule is not valid and writes nothing.
#pragma once

#include "backends/gpu/args.h"
#include "backends/hip/kernels/common/device.h"

namespace flashattn::hip {

using gpu::ForwardArgs;

struct Sequence {
  int32_t batch;
  int32_t n_q;
  int32_t n_k;
  bool valid;
  int64_t first_q;       // ragged: first row in the buffers of Q, O and LSE
  int64_t first_kv;      // ragged: first row in the buffers of K and V
  const int32_t *pages;  // paged: the page of each page_size slots
  int64_t diagonal;      // d = n_k - n_q + diag_offset
};

struct RaggedRows {
  int64_t first;
  int64_t count;
  bool valid;
};

// Rows prefix[b] .. prefix[b + 1] of a buffer of `total` rows.
__device__ __forceinline__ RaggedRows ragged_rows(const ForwardArgs &args, const void *prefix, int32_t b,
                                                  int64_t total) {
  int64_t begin = 0;
  int64_t end = 0;
  if ((args.flags & gpu::kInt64Prefix) != 0) {
    begin = static_cast<const int64_t *>(prefix)[b];
    end = static_cast<const int64_t *>(prefix)[b + 1];
  } else {
    begin = static_cast<const int32_t *>(prefix)[b];
    end = static_cast<const int32_t *>(prefix)[b + 1];
  }
  return {begin, end - begin, begin >= 0 && end >= begin && end <= total};
}

// Everything but the page numbers, which bad_page checks.
__device__ __forceinline__ Sequence load_sequence(const ForwardArgs &args, int32_t b) {
  Sequence s{};
  s.batch = b;
  s.valid = true;
  int64_t rows_q = args.seqlen_q;
  int64_t rows_kv = args.seqlen_kv;
  if ((args.flags & gpu::kRaggedQ) != 0) {
    const RaggedRows rows = ragged_rows(args, args.cu_q, b, args.total_q);
    s.first_q = rows.first;
    rows_q = rows.count;
    s.valid = rows.valid;
  }
  if ((args.flags & gpu::kRaggedKv) != 0) {
    const RaggedRows rows = ragged_rows(args, args.cu_kv, b, args.total_kv);
    s.first_kv = rows.first;
    rows_kv = rows.count;
    s.valid = s.valid && rows.valid;
  } else if ((args.flags & gpu::kPagedTable) != 0) {
    s.pages = args.page_table + b * args.page_table_stride;
    rows_kv = args.page_table_width * args.page_size;
  } else if ((args.flags & gpu::kPagedCsr) != 0) {
    const int64_t begin = args.page_indptr[b];
    const int64_t end = args.page_indptr[b + 1];
    s.pages = args.page_table + begin;
    rows_kv = (end - begin) * args.page_size;
    s.valid = s.valid && begin >= 0 && end >= begin;
  }
  const int64_t n_q = (args.flags & gpu::kUsedQ) != 0 ? args.used_q[b] : rows_q;
  const int64_t n_k = (args.flags & gpu::kUsedKv) != 0 ? args.used_kv[b] : rows_kv;
  s.valid = s.valid && n_q >= 0 && n_q <= rows_q && n_q <= args.bound_q && n_k >= 0 && n_k <= rows_kv &&
            n_k <= args.bound_kv;
  s.n_q = s.valid ? static_cast<int32_t>(n_q) : 0;
  s.n_k = s.valid ? static_cast<int32_t>(n_k) : 0;
  s.diagonal = n_k - n_q + args.diag_offset;
  if ((args.flags & gpu::kDiagOffsets) != 0) s.diagonal += args.diag_offsets[b];
  return s;
}

// Whether `member` of `members` threads finds a page outside the pool among its share.
__device__ __forceinline__ bool bad_page(const ForwardArgs &args, const Sequence &s, int32_t member,
                                         int32_t members) {
  if ((args.flags & gpu::kPaged) == 0) return false;
  const int32_t pages =
      static_cast<int32_t>((static_cast<int64_t>(s.n_k) + args.page_size - 1) / args.page_size);
  bool bad = false;
  for (int32_t p = member; p < pages; p += members) bad |= s.pages[p] < 0 || s.pages[p] >= args.num_pages;
  return bad;
}

// Offset in elements of row (i, head) of Q, O or LSE.
__device__ __forceinline__ int64_t q_offset(const ForwardArgs &args, const gpu::TensorArg &tensor,
                                            const Sequence &s, int64_t i, int32_t head) {
  const int64_t batch = (args.flags & gpu::kRaggedQ) != 0 ? 0 : s.batch * tensor.stride_batch;
  return batch + (s.first_q + i) * tensor.stride_seq + head * tensor.stride_head;
}

// Offset in elements of row j of K or V.
__device__ __forceinline__ int64_t kv_offset(const ForwardArgs &args, const gpu::TensorArg &tensor,
                                             const Sequence &s, int32_t j, int32_t head_kv) {
  const int64_t head = head_kv * tensor.stride_head;
  if ((args.flags & gpu::kPaged) != 0) {
    const int32_t page = j / args.page_size;
    return head + s.pages[page] * tensor.stride_batch + (j - page * args.page_size) * tensor.stride_seq;
  }
  const int64_t batch = (args.flags & gpu::kRaggedKv) != 0 ? 0 : s.batch * tensor.stride_batch;
  return head + batch + (s.first_kv + j) * tensor.stride_seq;
}

// Row number in the partial results of one split.
__device__ __forceinline__ int64_t partial_row(const ForwardArgs &args, const Sequence &s, int64_t i,
                                               int32_t head) {
  const bool ragged = (args.flags & gpu::kRaggedQ) != 0;
  const int64_t first = ragged ? s.first_q : static_cast<int64_t>(s.batch) * args.seqlen_q;
  return (first + i) * args.heads_q + head;
}

__device__ __forceinline__ float per_head_at(const gpu::PerHeadArg &values, const Sequence &s, int32_t head) {
  return values.data[s.batch * values.stride_batch + head * values.stride_head];
}

// A packed row of a KV head: row r is query r / group of query head r % group of that head.
struct PackedRow {
  int32_t i;
  int32_t head;
};
__device__ __forceinline__ PackedRow packed_row(const ForwardArgs &args, int32_t head_kv, int32_t row) {
  if (args.group == 1) return {row, head_kv};
  const int32_t i = row / args.group;
  return {i, head_kv * args.group + row - i * args.group};
}

}  // namespace flashattn::hip
