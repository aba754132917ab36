// SPDX-License-Identifier: Apache-2.0
// fwd_hip_generic: every dtype, layout, stride and feature, head dimensions to 576, in f32 on the plain
// arithmetic units. Right rather than fast; it has no alignment rule beyond the element's.
//
// A block of two waves computes kRows packed query rows of one KV head against kKeys keys at a time. While
// scores are formed a wave owns half the rows and a lane one key; for P V a thread owns columns of O.
#include "backends/gpu/ranges.h"
#include "backends/gpu/schedule.h"
#include "backends/hip/kernels/common/finish.h"
#include "backends/hip/kernels/common/score.h"

namespace flashattn::hip {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 16;
constexpr int kRowsPerWave = 8;
constexpr int kKeys = kWaveLanes;
constexpr int kDims = 32;        // of Q and K at a time
constexpr int kColumnSteps = 5;  // 5 * 128 >= 576 columns of V
constexpr int kPad = 20;  // floats from one transposed row to the next: 16 and room against bank conflicts

struct Shared {
  float q[kDims * kPad];                  // [dim][row]
  float k[kKeys * (kDims + 1)];           // [key][dim]
  float p[kKeys * kPad];                  // [key][row]
  float factor[kRows];                    // what O's rows are multiplied by
  int64_t q_at[kRows];                    // offsets of the rows, -1 past the last
  int64_t k_at[kKeys], v_at[kKeys];       // offsets of the keys, -1 past the last
  int32_t refuse[kThreads / kWaveLanes];  // by wave
};

__device__ __forceinline__ float wave_max(float x) {
  for (int step = 32; step > 0; step /= 2) x = max_of(x, from_lane(x, (thread_index() % kWaveLanes) ^ step));
  return x;
}
__device__ __forceinline__ float wave_sum(float x) {
  for (int step = 32; step > 0; step /= 2) x += from_lane(x, (thread_index() % kWaveLanes) ^ step);
  return x;
}

// q.k of this lane's key with the wave's rows.
__device__ __forceinline__ void products(const ForwardArgs &args, Shared &shared,
                                         float (&product)[kRowsPerWave]) {
  const int lane = thread_index() % kWaveLanes;
  const int wave = thread_index() / kWaveLanes;
  const int column = thread_index() % kDims;
  for (float &x : product) x = 0.0F;
  for (int first = 0; first < args.dim; first += kDims) {
    const int d = first + column;
    block_barrier();
    for (int r = thread_index() / kDims; r < kRows; r += kThreads / kDims) {
      const int64_t at = shared.q_at[r];
      shared.q[column * kPad + r] =
          at >= 0 && d < args.dim ? load_element(args.q.data, at + d, args.dtype_q) : 0.0F;
    }
    for (int j = thread_index() / kDims; j < kKeys; j += kThreads / kDims) {
      const int64_t at = shared.k_at[j];
      shared.k[j * (kDims + 1) + column] =
          at >= 0 && d < args.dim ? load_element(args.k.data, at + d, args.dtype_kv) : 0.0F;
    }
    block_barrier();
    for (int c = 0; c < kDims; ++c) {
      const float k = shared.k[lane * (kDims + 1) + c];
#pragma unroll
      for (int r = 0; r < kRowsPerWave; ++r) {
        product[r] = __builtin_fmaf(shared.q[c * kPad + wave * kRowsPerWave + r], k, product[r]);
      }
    }
  }
}

// O = factor * O + P V for the thread's columns.
__device__ __forceinline__ void accumulate(const ForwardArgs &args, const Shared &shared,
                                           float (&o)[kColumnSteps][kRows]) {
#pragma unroll
  for (int step = 0; step < kColumnSteps; ++step) {
    const int column = step * kThreads + thread_index();
    if (step * kThreads >= args.dim_v) continue;
#pragma unroll
    for (int r = 0; r < kRows; ++r) o[step][r] *= shared.factor[r];
    if (column >= args.dim_v) continue;
    for (int j = 0; j < kKeys; ++j) {
      const int64_t at = shared.v_at[j];
      if (at < 0) break;
      const float v = load_element(args.v.data, at + column, args.dtype_kv);
#pragma unroll
      for (int r = 0; r < kRows; ++r) o[step][r] = __builtin_fmaf(shared.p[j * kPad + r], v, o[step][r]);
    }
  }
}

__device__ __forceinline__ void attend(const ForwardArgs &args, Shared &shared, const gpu::Piece &piece,
                                       const Sequence &s) {
  const int lane = thread_index() % kWaveLanes;
  const int wave = thread_index() / kWaveLanes;
  const int32_t rows = s.n_q * args.group;
  const int32_t first_row = piece.tile * kRows;
  if (first_row >= rows) return;
  const int32_t last_row = (first_row + kRows < rows ? first_row + kRows : rows) - 1;
  const gpu::KeyRange seen = gpu::visible_to_rows(first_row, last_row, args.group, s.diagonal,
                                                  args.window_left, args.window_right, s.n_k);
  const gpu::KeyRange blocks = gpu::split_blocks(seen, kKeys, piece.split, args.splits);
  if (thread_index() < kRows) {
    const int32_t row = first_row + thread_index();
    const PackedRow packed = packed_row(args, piece.head_kv, row);
    shared.q_at[thread_index()] = row <= last_row ? q_offset(args, args.q, s, packed.i, packed.head) : -1;
  }

  // The wave's rows; rows past the last repeat it and are not stored.
  float m[kRowsPerWave];
  float sum[kRowsPerWave];
#pragma unroll
  for (int r = 0; r < kRowsPerWave; ++r) {
    m[r] = -kInfinity;
    sum[r] = 0.0F;
  }
  float o[kColumnSteps][kRows] = {};

  for (int32_t block = blocks.begin; block < blocks.end; ++block) {
    const int32_t j = block * kKeys + lane;
    if (wave == 0) {
      shared.k_at[lane] = j < s.n_k ? kv_offset(args, args.k, s, j, piece.head_kv) : -1;
    } else {
      shared.v_at[lane] = j < s.n_k ? kv_offset(args, args.v, s, j, piece.head_kv) : -1;
    }
    float product[kRowsPerWave];
    products(args, shared, product);
#pragma unroll
    for (int r = 0; r < kRowsPerWave; ++r) {
      const int32_t wanted = first_row + wave * kRowsPerWave + r;
      const PackedRow row = packed_row(args, piece.head_kv, wanted < last_row ? wanted : last_row);
      const gpu::KeyRange visible =
          gpu::visible_keys(row.i, s.diagonal, args.window_left, args.window_right, s.n_k);
      const bool sees = j >= visible.begin && j < visible.end;
      const float score = sees ? modified_score(args, row_modifier(args, s, row), product[r], j) : -kInfinity;
      const float top = max_of(m[r], wave_max(score));
      const float factor = m[r] == -kInfinity ? 0.0F : exp_of(m[r] - top);
      const float p = score == -kInfinity ? 0.0F : exp_of(score - top);
      sum[r] = sum[r] * factor + wave_sum(p);
      m[r] = top;
      shared.p[lane * kPad + wave * kRowsPerWave + r] = p;
      if (lane == 0) shared.factor[wave * kRowsPerWave + r] = factor;
    }
    block_barrier();
    accumulate(args, shared, o);
    block_barrier();
  }

#pragma unroll
  for (int r = 0; r < kRowsPerWave; ++r) {
    const int32_t wanted = first_row + wave * kRowsPerWave + r;
    if (wanted > last_row || lane != 0) continue;
    const PackedRow row = packed_row(args, piece.head_kv, wanted);
    const RowResult result = finish_tile_row(args, s, row.head, m[r], sum[r]);
    shared.factor[wave * kRowsPerWave + r] = result.scale;
    store_lse(args, s, piece.split, row, result.lse);
  }
  block_barrier();
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (first_row + r > last_row) continue;
    const OutputRow out = output_row(args, s, piece.split, packed_row(args, piece.head_kv, first_row + r));
#pragma unroll
    for (int step = 0; step < kColumnSteps; ++step) {
      const int column = step * kThreads + thread_index();
      if (column < args.dim_v)
        store_element(out.data, out.offset + column, out.dtype, o[step][r] * shared.factor[r]);
    }
  }
}

}  // namespace

extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(kThreads, kThreads))) void fwd_hip_generic(
    ForwardArgs args, int64_t grid) {
  __shared__ Shared shared;
  const int64_t pairs = static_cast<int64_t>(args.batch) * args.heads_kv;
  for (int64_t block = block_index(); block < args.blocks; block += grid) {
    const gpu::Piece piece =
        gpu::piece_at<int64_t>(block, pairs, args.heads_kv, args.q_tiles, args.splits, args.section_heads);
    const Sequence s = load_sequence(args, piece.batch);
    const bool refuses = any_in_wave(!s.valid || bad_page(args, s, thread_index(), kThreads));
    // The first barrier also keeps this piece's writes to shared memory behind the last one's reads.
    block_barrier();
    if (thread_index() % kWaveLanes == 0) shared.refuse[thread_index() / kWaveLanes] = refuses ? 1 : 0;
    block_barrier();
    if ((shared.refuse[0] | shared.refuse[1]) != 0) continue;
    attend(args, shared, piece, s);
  }
}

}  // namespace flashattn::hip
