// SPDX-License-Identifier: Apache-2.0
// fwd_cuda_generic: every dtype, layout, stride and feature, head dimensions to 576, in f32 on the plain
// arithmetic units. Right rather than fast; it has no alignment rule beyond the element's.
//
// A block computes kRows packed query rows of one KV head against kKeys keys at a time. Warp w owns rows
// 4 w .. 4 w + 3 while scores are formed (one key per lane); for P V each thread owns columns of O.
#include "backends/cuda/kernels/common/finish.cuh"
#include "backends/cuda/kernels/common/score.cuh"
#include "backends/gpu/ranges.h"
#include "backends/gpu/schedule.h"

namespace flashattn::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 16;
constexpr int kKeys = 32;  // one per lane
constexpr int kDims = 32;  // of Q and K at a time
constexpr int kRowsPerWarp = 4;
constexpr int kColumnSteps = 5;  // 5 * 128 >= 576 columns of V
constexpr int kPad = 20;  // floats from one transposed row to the next: 16 and room against bank conflicts
constexpr unsigned kWarp = 0xffffffff;

struct Shared {
  float q[kDims * kPad];             // [dim][row]
  float k[kKeys * (kDims + 1)];      // [key][dim]
  float p[kKeys * kPad];             // [key][row]
  float factor[kRows];               // what O's rows are multiplied by
  int64_t q_at[kRows];               // offsets of the rows, -1 past the last
  int64_t k_at[kKeys], v_at[kKeys];  // offsets of the keys, -1 past the last
};

__device__ float warp_max(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(kWarp, x, step));
  return x;
}
__device__ float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(kWarp, x, step);
  return x;
}

// q.k of this lane's key with the warp's four rows.
__device__ void products(const ForwardArgs &args, Shared &shared, float (&product)[kRowsPerWarp]) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  for (float &x : product) x = 0.0F;
  for (int first = 0; first < args.dim; first += kDims) {
    const int d = first + lane;
    __syncthreads();
    for (int r = warp; r < kRows; r += 4) {
      const int64_t at = shared.q_at[r];
      shared.q[lane * kPad + r] =
          at >= 0 && d < args.dim ? load_element(args.q.data, at + d, args.dtype_q) : 0.0F;
    }
    for (int j = warp; j < kKeys; j += 4) {
      const int64_t at = shared.k_at[j];
      shared.k[j * (kDims + 1) + lane] =
          at >= 0 && d < args.dim ? load_element(args.k.data, at + d, args.dtype_kv) : 0.0F;
    }
    __syncthreads();
    for (int c = 0; c < kDims; ++c) {
      const float k = shared.k[lane * (kDims + 1) + c];
      const float4 q = *reinterpret_cast<const float4 *>(shared.q + c * kPad + warp * kRowsPerWarp);
      product[0] = fmaf(q.x, k, product[0]);
      product[1] = fmaf(q.y, k, product[1]);
      product[2] = fmaf(q.z, k, product[2]);
      product[3] = fmaf(q.w, k, product[3]);
    }
  }
}

// O = factor * O + P V for the thread's columns.
__device__ void accumulate(const ForwardArgs &args, const Shared &shared, float (&o)[kColumnSteps][kRows]) {
#pragma unroll
  for (int step = 0; step < kColumnSteps; ++step) {
    const int column = step * kThreads + static_cast<int>(threadIdx.x);
    if (step * kThreads >= args.dim_v) continue;
#pragma unroll
    for (int r = 0; r < kRows; ++r) o[step][r] *= shared.factor[r];
    if (column >= args.dim_v) continue;
#pragma unroll 4
    for (int j = 0; j < kKeys; ++j) {
      const int64_t at = shared.v_at[j];
      if (at < 0) break;
      const float v = load_element(args.v.data, at + column, args.dtype_kv);
#pragma unroll
      for (int r = 0; r < kRows; ++r) o[step][r] = fmaf(shared.p[j * kPad + r], v, o[step][r]);
    }
  }
}

__device__ void attend(const ForwardArgs &args, Shared &shared, const gpu::Piece &piece, const Sequence &s) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int32_t rows = s.n_q * args.group;
  const int32_t first_row = piece.tile * kRows;
  if (first_row >= rows) return;
  const int32_t last_row = min(first_row + kRows, rows) - 1;
  const gpu::KeyRange seen = gpu::visible_to_rows(first_row, last_row, args.group, s.diagonal,
                                                  args.window_left, args.window_right, s.n_k);
  const gpu::KeyRange blocks = gpu::split_blocks(seen, kKeys, piece.split, args.splits);
  if (threadIdx.x < kRows) {
    const int32_t row = first_row + static_cast<int32_t>(threadIdx.x);
    const int32_t head = piece.head_kv * args.group + row % args.group;
    shared.q_at[threadIdx.x] = row <= last_row ? q_offset(args, args.q, s, row / args.group, head) : -1;
  }

  // The warp's rows; rows past the last repeat it and are not stored.
  RowModifier modifier[kRowsPerWarp];
  gpu::KeyRange visible[kRowsPerWarp];
  float m[kRowsPerWarp], sum[kRowsPerWarp];
  for (int r = 0; r < kRowsPerWarp; ++r) {
    const int32_t row = min(first_row + warp * kRowsPerWarp + r, last_row);
    const int32_t head = piece.head_kv * args.group + row % args.group;
    modifier[r] = row_modifier(args, s, row / args.group, head);
    visible[r] = gpu::visible_keys(row / args.group, s.diagonal, args.window_left, args.window_right, s.n_k);
    m[r] = minus_infinity();
    sum[r] = 0.0F;
  }
  float o[kColumnSteps][kRows] = {};

  for (int32_t block = blocks.begin; block < blocks.end; ++block) {
    const int32_t j = block * kKeys + lane;
    if (warp == 0) {
      shared.k_at[lane] = j < s.n_k ? kv_offset(args, args.k, s, j) + piece.head_kv * args.k.stride_head : -1;
    } else if (warp == 1) {
      shared.v_at[lane] = j < s.n_k ? kv_offset(args, args.v, s, j) + piece.head_kv * args.v.stride_head : -1;
    }
    float product[kRowsPerWarp];
    products(args, shared, product);
    for (int r = 0; r < kRowsPerWarp; ++r) {
      const bool sees = j >= visible[r].begin && j < visible[r].end;
      const float score = sees ? modified_score(args, modifier[r], product[r], j) : minus_infinity();
      const float top = fmaxf(m[r], warp_max(score));
      const float factor = m[r] == minus_infinity() ? 0.0F : expf(m[r] - top);
      const float p = score == minus_infinity() ? 0.0F : expf(score - top);
      sum[r] = sum[r] * factor + warp_sum(p);
      m[r] = top;
      shared.p[lane * kPad + warp * kRowsPerWarp + r] = p;
      if (lane == 0) shared.factor[warp * kRowsPerWarp + r] = factor;
    }
    __syncthreads();
    accumulate(args, shared, o);
    __syncthreads();
  }

  for (int r = 0; r < kRowsPerWarp; ++r) {
    const int32_t row = first_row + warp * kRowsPerWarp + r;
    if (row > last_row) break;
    const int32_t head = piece.head_kv * args.group + row % args.group;
    const int32_t i = row / args.group;
    const RowResult result = finish_tile_row(args, s, head, m[r], sum[r]);
    if (lane != 0) continue;
    shared.factor[warp * kRowsPerWarp + r] = result.scale;
    if (args.splits > 1) {
      args.partial_lse[piece.split * args.partial_rows + partial_row(args, s, i, head)] = result.lse;
    } else {
      store_lse(args, s, i, head, result.lse);
    }
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int32_t row = first_row + r;
    if (row > last_row) break;
    const int32_t head = piece.head_kv * args.group + row % args.group;
    const int32_t i = row / args.group;
    const bool partial = args.splits > 1;
    const int64_t at = partial
                           ? (piece.split * args.partial_rows + partial_row(args, s, i, head)) * args.dim_v
                           : q_offset(args, args.o, s, i, head);
    void *data = partial ? static_cast<void *>(args.partial_o) : args.o.data;
    const int32_t dtype = partial ? FLASHATTN_DTYPE_F32 : args.dtype_o;
#pragma unroll
    for (int step = 0; step < kColumnSteps; ++step) {
      const int column = step * kThreads + static_cast<int>(threadIdx.x);
      if (column < args.dim_v) store_element(data, at + column, dtype, o[step][r] * shared.factor[r]);
    }
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    fwd_cuda_generic(const __grid_constant__ ForwardArgs args) {
  __shared__ Shared shared;
  const int64_t pairs = static_cast<int64_t>(args.batch) * args.heads_kv;
  for (int64_t block = blockIdx.x; block < args.blocks; block += gridDim.x) {
    const gpu::Piece piece =
        gpu::piece_at<int64_t>(block, pairs, args.heads_kv, args.q_tiles, args.splits, args.section_heads);
    const Sequence s = load_sequence(args, piece.batch);
    const bool bad = bad_page(args, s, threadIdx.x, kThreads);
    // Also keeps this piece's writes to shared memory behind the last one's reads.
    if (__syncthreads_or(bad || !s.valid)) continue;
    attend(args, shared, piece, s);
  }
}

}  // namespace flashattn::cuda
