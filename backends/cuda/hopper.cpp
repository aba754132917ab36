// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/hopper.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "backends/gpu/splits.h"

namespace flashattn::cuda {
namespace {

constexpr int32_t kHopperCapability = 90;
constexpr double kLog2E = 1.44269504088896340736;
constexpr int32_t kBoxColumns = 64;  // 128 bytes, the widest swizzle span
constexpr int32_t kOutputBoxRows = 64;
// K and V of the heads that are swept together take this much of the L2; measured on an H200 (docs/worklog.md).
constexpr int64_t kSweptBytes = int64_t{16} << 20;
// Row numbers and diagonals are int32 in the kernels, and rounded up to whole tiles.
constexpr int64_t kMostRows = INT32_MAX - 1024;
// Fewer queries than this leave most of a tile empty.
constexpr int32_t kFewQueries = 64;
// From here on it pays to split keys where tiles are few.
constexpr int32_t kManyKeys = 2048;

int64_t most_tiles(const KernelEntry &kernel, const flashattn_problem_t &problem) {
  return int64_t{problem.max_batch} * problem.num_heads_q *
         gpu::tiles_of(problem.max_seqlen_q, 1, kernel.tile.rows);
}

// A feature that these kernels lack, in words; nullptr when there is none.
const char *missing_feature(const flashattn_problem_t &problem) {
  const auto has = [&](uint64_t feature) { return (problem.features & feature) != 0; };
  if (problem.layout_q != FLASHATTN_LAYOUT_DENSE) return "layout_q is not DENSE";
  if (problem.layout_kv != FLASHATTN_LAYOUT_DENSE) return "layout_kv is not DENSE";
  if (has(FLASHATTN_FEATURE_SEQUSED_Q)) return "features has SEQUSED_Q";
  if (has(FLASHATTN_FEATURE_SEQUSED_KV)) return "features has SEQUSED_KV";
  if (has(FLASHATTN_FEATURE_DIAG_OFFSETS)) return "features has DIAG_OFFSETS";
  if (has(FLASHATTN_FEATURE_WINDOW)) return "features has WINDOW";
  if (has(FLASHATTN_FEATURE_ALIBI)) return "features has ALIBI";
  if (has(FLASHATTN_FEATURE_SINKS)) return "features has SINKS";
  if (problem.softcap > 0) return "softcap is set";
  if (problem.dtype_bias != 0) return "dtype_bias is set";
  if ((problem.flags & FLASHATTN_FLAG_BATCH_INVARIANT) != 0) return "flags has BATCH_INVARIANT";
  return nullptr;
}

// A dense tensor as (column, row, head, batch).
struct Mapped {
  const char *field;
  flashattn_tensor_t tensor;
  int32_t columns, rows, heads, batch;
  int32_t box_rows;
};

// cuTensorMapEncodeTiled: strides are multiples of 16 bytes below 2^40, also those of a dimension of one.
bool encode(const CudaDriver &driver, int32_t dtype, const Mapped &m, sm90::TensorMap *map) {
  constexpr int64_t kElement = 2;
  const uint64_t dims[] = {static_cast<uint64_t>(m.columns), static_cast<uint64_t>(m.rows),
                           static_cast<uint64_t>(m.heads), static_cast<uint64_t>(m.batch)};
  const auto stride = [&](int64_t elements, int32_t extent) {
    return static_cast<uint64_t>(extent > 1 ? elements * kElement : int64_t{m.columns} * kElement);
  };
  const uint64_t strides[] = {stride(m.tensor.stride_seq, m.rows), stride(m.tensor.stride_head, m.heads),
                              stride(m.tensor.stride_batch, m.batch)};
  const uint32_t box[] = {kBoxColumns, static_cast<uint32_t>(m.box_rows), 1, 1};
  const uint32_t every[] = {1, 1, 1, 1};
  return driver.cuTensorMapEncodeTiled(map, dtype == FLASHATTN_DTYPE_F16 ? kMapF16 : kMapBf16, 4,
                                       m.tensor.data, dims, strides, box, every, kMapInterleaveNone,
                                       kMapSwizzle128, kMapPromote256, kMapFillZero) == kCudaSuccess;
}

}  // namespace

void refuse_hopper(const KernelEntry &kernel, const flashattn_problem_t &problem, const DeviceTraits &device,
                   char *reason, size_t size) {
  const char *missing = missing_feature(problem);
  if (device.capability != kHopperCapability) {
    std::snprintf(reason, size, "device has compute capability %d.%d; it takes 9.0", device.capability / 10,
                  device.capability % 10);
  } else if (!device.tensor_maps) {
    std::snprintf(reason, size,
                  "the driver of this device has no cuTensorMapEncodeTiled; it needs tensor maps");
  } else if (problem.head_dim != kernel.head_dim) {
    std::snprintf(reason, size, "head_dim is %d; it takes %d", problem.head_dim, kernel.head_dim);
  } else if (problem.head_dim_v != kernel.head_dim) {
    std::snprintf(reason, size, "head_dim_v is %d; it takes %d", problem.head_dim_v, kernel.head_dim);
  } else if (problem.dtype_o != kernel.dtype) {
    std::snprintf(reason, size, "dtype_o differs from dtype_q; it takes one type");
  } else if (missing != nullptr) {
    std::snprintf(reason, size, "%s; it takes dense batches, causal or full", missing);
  } else if (problem.softmax_scale <= 0) {
    std::snprintf(reason, size, "softmax_scale is %g; it takes scales above 0", problem.softmax_scale);
  } else if (problem.num_splits > 1) {
    std::snprintf(reason, size, "num_splits is %d; it never splits keys", problem.num_splits);
  } else if (int64_t{problem.max_seqlen_q} + problem.max_seqlen_kv > kMostRows) {
    std::snprintf(reason, size, "max_seqlen_q is %d; with max_seqlen_kv %d it takes at most %lld rows",
                  problem.max_seqlen_q, problem.max_seqlen_kv, static_cast<long long>(kMostRows));
  } else if (most_tiles(kernel, problem) > INT32_MAX) {
    std::snprintf(reason, size, "max_batch is %d; more than 2^31 - 1 tiles", problem.max_batch);
  }
}

void yield_hopper(const KernelEntry &kernel, const flashattn_problem_t &problem, const DeviceTraits &device,
                  char *reason, size_t size) {
  if (problem.max_seqlen_q < kFewQueries) {
    std::snprintf(reason, size, "max_seqlen_q is %d; it is the better one from %d on", problem.max_seqlen_q,
                  kFewQueries);
  } else if (problem.num_splits != 1 && problem.max_seqlen_kv >= kManyKeys &&
             most_tiles(kernel, problem) * 2 <= device.multiprocessors) {
    std::snprintf(reason, size,
                  "max_batch is %d; its %lld tiles leave half of the %d multiprocessors idle, and it never "
                  "splits keys",
                  problem.max_batch, static_cast<long long>(most_tiles(kernel, problem)),
                  device.multiprocessors);
  }
}

const char *describe_hopper_call(const CudaDriver &driver, const KernelEntry &kernel,
                                 const flashattn_problem_t &problem, const flashattn_call_t &call,
                                 void *tile_counter, sm90::FwdParams *params) {
  sm90::FwdParams &p = *params;
  p = {};
  const int32_t dim = kernel.head_dim;
  const int32_t heads = problem.num_heads_q;
  const int32_t heads_kv = problem.num_heads_kv;
  const int32_t n_q = call.seqlen_q;
  const int32_t n_k = call.seqlen_kv;
  flashattn_tensor_t k = call.k;
  flashattn_tensor_t v = call.v;
  // Without keys no map of theirs is read, but there is one.
  if (n_k == 0) k.data = v.data = call.q.data;
  const int32_t rows_kv = std::max(n_k, 1);
  const struct {
    Mapped tensor;
    sm90::TensorMap *map;
  } maps[] = {{{"q", call.q, dim, n_q, heads, call.batch, kernel.tile.rows}, &p.q},
              {{"k", k, dim, rows_kv, heads_kv, call.batch, kernel.tile.keys}, &p.k},
              {{"v", v, dim, rows_kv, heads_kv, call.batch, kernel.tile.keys}, &p.v},
              {{"o", call.o, dim, n_q, heads, call.batch, kOutputBoxRows}, &p.o}};
  for (const auto &item : maps) {
    if (!encode(driver, kernel.dtype, item.tensor, item.map)) return item.tensor.field;
  }
  p.lse = static_cast<float *>(call.lse.data);
  p.lse_stride_batch = call.lse.stride_batch;
  p.lse_stride_head = call.lse.stride_head;
  p.lse_stride_row = call.lse.stride_seq;
  p.tile_counter = static_cast<int32_t *>(tile_counter);
  p.n_q = n_q;
  p.n_k = n_k;
  p.heads = heads;
  p.group_size = heads / heads_kv;
  p.batch_heads = call.batch * heads;
  p.causal = problem.causal;
  // Beyond these ends every row sees all keys or none.
  p.diagonal =
      static_cast<int32_t>(std::clamp<int64_t>(int64_t{n_k} - n_q + call.diag_offset, -int64_t{n_q}, n_k));
  p.m_tiles = static_cast<int32_t>(gpu::tiles_of(n_q, 1, kernel.tile.rows));
  p.total_tiles = p.m_tiles * p.batch_heads;
  const int64_t pair_bytes = std::max<int64_t>(int64_t{n_k} * dim * 4, 1);
  const int64_t swept = problem.causal != 0 ? std::max<int64_t>(1, kSweptBytes / pair_bytes) : 1;
  p.heads_per_group = static_cast<int32_t>(std::min<int64_t>(p.group_size * swept, p.batch_heads));
  p.scale_log2 = static_cast<float>(problem.softmax_scale * kLog2E);
  p.o_rows = call.o.data;
  p.o_stride_batch = call.o.stride_batch;
  p.o_stride_head = call.o.stride_head;
  p.o_stride_row = call.o.stride_seq;
  return nullptr;
}

}  // namespace flashattn::cuda
