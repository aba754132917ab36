// SPDX-License-Identifier: Apache-2.0
// What a forward kernel is told about one call: plain fixed-width data, passed by value. It carries the whole
// feature set, so that a feature is a flag at run time and not a kernel of its own. Nothing here knows a
// vendor; pointers are the device's.
#pragma once

#include <cstdint>
#include <type_traits>

namespace flashattn::gpu {

// Strides in elements. Row (b, s, h) of a dense tensor, (t, h) of a ragged one, (page, slot, h) of a pool.
struct TensorArg {
  void *data;
  int64_t stride_batch;
  int64_t stride_seq;
  int64_t stride_head;
};

// Element (b, h, i, j), strides in elements.
struct BiasArg {
  const void *data;
  int64_t stride_batch;
  int64_t stride_head;
  int64_t stride_q;
  int64_t stride_kv;
};

struct PerHeadArg {
  const float *data;
  int64_t stride_batch;
  int64_t stride_head;
};

// ForwardArgs::flags.
enum : uint32_t {
  kRaggedQ = 0x1,
  kRaggedKv = 0x2,
  kPagedTable = 0x4,
  kPagedCsr = 0x8,
  kPaged = kPagedTable | kPagedCsr,
  kInt64Prefix = 0x10,  // cu_seqlens are int64
  kUsedQ = 0x20,
  kUsedKv = 0x40,
  kDiagOffsets = 0x80,
  kSoftcap = 0x100,
  kAlibi = 0x200,
  kBias = 0x400,
  kSinks = 0x800,
  kNegativeScale = 0x1000,  // the largest q.k is then not the largest score
  // Scores are more than a positive multiple of q.k.
  kModified = kSoftcap | kAlibi | kBias | kNegativeScale,
};

// Window ends that see everything; far outside any position, and far from overflow when added to one.
inline constexpr int64_t kUnbounded = int64_t{1} << 40;

struct ForwardArgs {
  TensorArg q, k, v, o;
  TensorArg lse;  // f32; data null = not wanted
  BiasArg bias;
  PerHeadArg alibi, sinks;

  const void *cu_q, *cu_kv;
  const int32_t *used_q, *used_kv;
  const int32_t *diag_offsets;
  const int32_t *page_table;  // table: [batch, page_table_width]; CSR: the indices
  const int32_t *page_indptr;
  int64_t page_table_stride;
  int64_t page_table_width;
  int64_t total_q, total_kv;
  int64_t num_pages;

  int64_t window_left, window_right;  // keys seen before and after the diagonal; kUnbounded = all
  int64_t diag_offset;

  int32_t batch;
  int32_t seqlen_q, seqlen_kv;       // dense: rows per sequence
  int32_t bound_q, bound_kv;         // a sequence with more rows than this writes nothing
  int32_t heads_q, heads_kv, group;  // group: query heads per KV head
  int32_t dim, dim_v;
  int32_t page_size;
  int32_t dtype_q, dtype_kv, dtype_o, dtype_bias;  // FLASHATTN_DTYPE_*
  uint32_t flags;
  float scale;    // natural: score = scale * q.k
  float softcap;  // with kSoftcap

  // How the call is cut, see schedule.h.
  int32_t splits;
  int32_t q_tiles;        // tiles of packed rows per sequence and KV head
  int32_t section_heads;  // (sequence, KV head) pairs swept together so that their K and V stay cached
  int32_t reserved;
  int64_t blocks;        // all tiles of all sequences, heads and splits
  int64_t partial_rows;  // rows of O in one split's partial results
  float *partial_o;      // [splits, partial_rows, dim_v]
  float *partial_lse;    // [splits, partial_rows], natural logarithm
};
static_assert(std::is_trivially_copyable_v<ForwardArgs> && std::is_standard_layout_v<ForwardArgs>);
static_assert(sizeof(ForwardArgs) == 488, "kernels and host must agree on every byte");

// Merging of partial results, flashattn_combine.
struct MergeArgs {
  TensorArg o_partial, lse_partial, o, lse;
  int64_t o_stride_part, lse_stride_part;
  int64_t rows;  // batch * seqlen_q * heads
  int32_t parts, seqlen_q, heads, dim_v;
  int32_t dtype_partial, dtype_o;
};
static_assert(std::is_trivially_copyable_v<MergeArgs> && std::is_standard_layout_v<MergeArgs>);
static_assert(sizeof(MergeArgs) == 176, "kernels and host must agree on every byte");

}  // namespace flashattn::gpu
