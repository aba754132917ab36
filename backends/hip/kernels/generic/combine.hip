// SPDX-License-Identifier: Apache-2.0
// Merging partial results, one wave per row:
//     LSE = ln(sum_p exp(LSE_p)),   O = sum_p exp(LSE_p - LSE) O_p.
// A part with LSE = -inf contributes nothing, whatever its O holds.
#include "backends/hip/kernels/common/finish.h"

namespace flashattn::hip {
namespace {

constexpr int kThreads = 256;
constexpr int kWaves = kThreads / kWaveLanes;

struct Parts {
  const void *o;  // part p's row at o + p * o_stride, in elements from o_offset
  int64_t o_offset;
  const float *lse;
  int64_t o_stride;
  int64_t lse_stride;
  int32_t dtype;
  int32_t count;
};

struct Weights {
  float m;    // the largest LSE
  float sum;  // of exp(LSE_p - m)
};

__device__ __forceinline__ Weights weigh(const Parts &parts, int lane) {
  Weights weights{-kInfinity, 0.0F};
  bool nan = false;
  for (int32_t p = lane; p < parts.count; p += kWaveLanes) {
    const float lse = parts.lse[p * parts.lse_stride];
    nan |= lse != lse;
    weights.m = max_of(weights.m, lse);
  }
  for (int step = 32; step > 0; step /= 2) weights.m = max_of(weights.m, from_lane(weights.m, lane ^ step));
  for (int32_t p = lane; p < parts.count; p += kWaveLanes) {
    const float lse = parts.lse[p * parts.lse_stride];
    if (lse != -kInfinity) weights.sum += exp_of(lse - weights.m);
  }
  for (int step = 32; step > 0; step /= 2) weights.sum += from_lane(weights.sum, lane ^ step);
  if (any_in_wave(nan)) weights.sum = __builtin_nanf("");
  return weights;
}

__device__ __forceinline__ void merge_row(const Parts &parts, float m, float scale, int lane, int32_t dim_v,
                                          const OutputRow &out) {
  for (int32_t column = lane; column < dim_v; column += kWaveLanes) {
    float total = 0.0F;
    for (int32_t p = 0; p < parts.count; ++p) {
      const float lse = parts.lse[p * parts.lse_stride];
      if (lse == -kInfinity) continue;
      const float value = load_element(parts.o, parts.o_offset + p * parts.o_stride + column, parts.dtype);
      total = __builtin_fmaf(exp_of(lse - m), value, total);
    }
    store_element(out.data, out.offset + column, out.dtype, total * scale);
  }
}

// First row of this wave; the grid's waves take rows in turn.
__device__ __forceinline__ int64_t first_row() { return block_index() * kWaves + thread_index() / kWaveLanes; }

}  // namespace

// The splits of a forward call. Row numbers count (sequence, query, head) with the call's bound on queries.
extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(kThreads, kThreads))) void combine_splits(
    ForwardArgs args, int64_t grid) {
  const int lane = thread_index() % kWaveLanes;
  const bool ragged = (args.flags & gpu::kRaggedQ) != 0;
  const int64_t bound = ragged && args.total_q < args.bound_q ? args.total_q : args.bound_q;
  const int64_t rows = args.batch * bound * args.heads_q;
  for (int64_t row = first_row(); row < rows; row += grid * kWaves) {
    const int64_t query = row / args.heads_q;
    const auto head = static_cast<int32_t>(row - query * args.heads_q);
    const auto batch = static_cast<int32_t>(query / bound);
    const PackedRow packed{static_cast<int32_t>(query - batch * bound), head};
    const Sequence s = load_sequence(args, batch);
    if (!s.valid || packed.i >= s.n_q || any_in_wave(bad_page(args, s, lane, kWaveLanes))) continue;
    const int64_t at = partial_row(args, s, packed.i, head);
    const Parts parts{args.partial_o,    at * args.dim_v,     args.partial_lse + at, args.partial_rows * args.dim_v,
                      args.partial_rows, FLASHATTN_DTYPE_F32, args.splits};
    const Weights weights = weigh(parts, lane);
    const RowResult result = (args.flags & gpu::kSinks) != 0
                                 ? finish_row_with_sink(weights.m, weights.sum, per_head_at(args.sinks, s, head))
                                 : finish_row(weights.m, weights.sum);
    merge_row(parts, weights.m, result.scale, lane, args.dim_v,
              {args.o.data, q_offset(args, args.o, s, packed.i, head), args.dtype_o});
    if (lane == 0 && args.lse.data != nullptr) {
      static_cast<float *>(args.lse.data)[q_offset(args, args.lse, s, packed.i, head)] = result.lse;
    }
  }
}

// flashattn_combine.
extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(kThreads, kThreads))) void merge_parts(
    gpu::MergeArgs args, int64_t grid) {
  const int lane = thread_index() % kWaveLanes;
  for (int64_t row = first_row(); row < args.rows; row += grid * kWaves) {
    const int64_t query = row / args.heads;
    const int64_t h = row - query * args.heads;
    const int64_t b = query / args.seqlen_q;
    const int64_t i = query - b * args.seqlen_q;
    const auto offset = [b, i, h](const gpu::TensorArg &tensor) {
      return b * tensor.stride_batch + i * tensor.stride_seq + h * tensor.stride_head;
    };
    const Parts parts{args.o_partial.data,  offset(args.o_partial),
                      static_cast<const float *>(args.lse_partial.data) + offset(args.lse_partial),
                      args.o_stride_part,   args.lse_stride_part,
                      args.dtype_partial,   args.parts};
    const Weights weights = weigh(parts, lane);
    const RowResult result = finish_row(weights.m, weights.sum);
    merge_row(parts, weights.m, result.scale, lane, args.dim_v, {args.o.data, offset(args.o), args.dtype_o});
    if (lane == 0 && args.lse.data != nullptr) static_cast<float *>(args.lse.data)[offset(args.lse)] = result.lse;
  }
}

}  // namespace flashattn::hip
