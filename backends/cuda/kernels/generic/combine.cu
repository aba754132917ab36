// SPDX-License-Identifier: Apache-2.0
// Merging partial results, one warp per row:
//     LSE = ln(sum_p exp(LSE_p)),   O = sum_p exp(LSE_p - LSE) O_p.
// A part with LSE = -inf contributes nothing, whatever its O holds.
#include "backends/cuda/kernels/common/finish.cuh"

namespace flashattn::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr unsigned kWarp = 0xffffffff;

struct Parts {
  const void *o;  // part p's row at o + p * o_stride, in elements
  const float *lse;
  int64_t o_stride, lse_stride;
  int32_t dtype;
  int32_t count;
};

// The largest LSE and the sum of exp(LSE_p - largest).
__device__ void weigh(const Parts &parts, int lane, float *m, float *sum) {
  *m = minus_infinity();
  for (int32_t p = lane; p < parts.count; p += 32) *m = fmaxf(*m, parts.lse[p * parts.lse_stride]);
  for (int step = 16; step > 0; step /= 2) *m = fmaxf(*m, __shfl_xor_sync(kWarp, *m, step));
  *sum = 0.0F;
  for (int32_t p = lane; p < parts.count; p += 32) {
    const float lse = parts.lse[p * parts.lse_stride];
    if (lse != minus_infinity()) *sum += expf(lse - *m);
  }
  for (int step = 16; step > 0; step /= 2) *sum += __shfl_xor_sync(kWarp, *sum, step);
}

// m: what the weights are relative to; scale: applied to the weighted sum.
__device__ void merge_row(const Parts &parts, float m, float scale, int lane, int32_t dim_v, void *o,
                          int64_t o_at, int32_t dtype_o) {
  for (int32_t column = lane; column < dim_v; column += 32) {
    float total = 0.0F;
    for (int32_t p = 0; p < parts.count; ++p) {
      const float lse = parts.lse[p * parts.lse_stride];
      if (lse == minus_infinity()) continue;
      total = fmaf(expf(lse - m), load_element(parts.o, p * parts.o_stride + column, parts.dtype), total);
    }
    store_element(o, o_at + column, dtype_o, total * scale);
  }
}

}  // namespace

// The splits of a forward call. Row numbers count (sequence, query, head) with the call's bound on queries.
extern "C" __global__ void __launch_bounds__(kThreads)
    combine_splits(const __grid_constant__ ForwardArgs args) {
  const int lane = threadIdx.x % 32;
  const int64_t bound =
      (args.flags & gpu::kRaggedQ) != 0 && args.total_q < args.bound_q ? args.total_q : args.bound_q;
  const int64_t rows = args.batch * bound * args.heads_q;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; row < rows; row += step) {
    const auto head = static_cast<int32_t>(row % args.heads_q);
    const int64_t i = row / args.heads_q % bound;
    const Sequence s = load_sequence(args, static_cast<int32_t>(row / args.heads_q / bound));
    if (!s.valid || i >= s.n_q) continue;
    if (__any_sync(kWarp, bad_page(args, s, lane, 32))) continue;
    const int64_t at = partial_row(args, s, i, head);
    const Parts parts{args.partial_o + at * args.dim_v,
                      args.partial_lse + at,
                      args.partial_rows * args.dim_v,
                      args.partial_rows,
                      FLASHATTN_DTYPE_F32,
                      args.splits};
    float m = 0.0F;
    float sum = 0.0F;
    weigh(parts, lane, &m, &sum);
    const RowResult result = (args.flags & gpu::kSinks) != 0
                                 ? finish_row_with_sink(m, sum, per_head_at(args.sinks, s, head))
                                 : finish_row(m, sum);
    merge_row(parts, m, result.scale, lane, args.dim_v, args.o.data, q_offset(args, args.o, s, i, head),
              args.dtype_o);
    if (lane == 0) store_lse(args, s, i, head, result.lse);
  }
}

// flashattn_combine.
extern "C" __global__ void __launch_bounds__(kThreads)
    merge_parts(const __grid_constant__ gpu::MergeArgs args) {
  const int lane = threadIdx.x % 32;
  const auto offset = [](const gpu::TensorArg &tensor, int64_t b, int64_t i, int64_t h) {
    return b * tensor.stride_batch + i * tensor.stride_seq + h * tensor.stride_head;
  };
  const int64_t step = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; row < args.rows;
       row += step) {
    const int64_t h = row % args.heads;
    const int64_t i = row / args.heads % args.seqlen_q;
    const int64_t b = row / args.heads / args.seqlen_q;
    const int64_t size = args.dtype_partial == FLASHATTN_DTYPE_F32 ? 4 : 2;
    const Parts parts{static_cast<const char *>(args.o_partial.data) + offset(args.o_partial, b, i, h) * size,
                      static_cast<const float *>(args.lse_partial.data) + offset(args.lse_partial, b, i, h),
                      args.o_stride_part,
                      args.lse_stride_part,
                      args.dtype_partial,
                      args.parts};
    float m = 0.0F;
    float sum = 0.0F;
    weigh(parts, lane, &m, &sum);
    const RowResult result = finish_row(m, sum);
    merge_row(parts, m, result.scale, lane, args.dim_v, args.o.data, offset(args.o, b, i, h), args.dtype_o);
    if (lane == 0 && args.lse.data != nullptr) {
      static_cast<float *>(args.lse.data)[offset(args.lse, b, i, h)] = result.lse;
    }
  }
}

}  // namespace flashattn::cuda
