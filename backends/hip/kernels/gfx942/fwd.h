// SPDX-License-Identifier: Apache-2.0
// Forward attention for the matrix units of CDNA3. A block of four waves takes 128 packed query rows of one
// KV head and walks the keys; each wave owns 32 rows.
//
//   for each step of kKeys keys:   K and V go from registers to LDS; the next step's loads start
//                                  S^T = K Q^T;  modify, mask;  online softmax;  O^T += V^T P^T
//
// Both products are formed transposed. A lane then holds one query row of S^T, and the accumulator registers
// of S^T are the operand registers of P^T as they stand: no value changes lanes but the row's maximum and
// sum. For that the keys of S^T are permuted within 32: register r of lane half h is key 16 * (r / 8) + 8 * h
// + r % 8, the eight keys of one chunk of V^T.
#pragma once

#include "backends/gpu/ranges.h"
#include "backends/gpu/schedule.h"
#include "backends/hip/kernels/common/finish.h"
#include "backends/hip/kernels/common/score.h"
#include "backends/hip/kernels/gfx942/softmax.h"
#include "backends/hip/kernels/gfx942/tiles.h"

namespace flashattn::hip {

// Row of K that lane column j of the matrix unit takes, so that results come out in the order named above.
__device__ __forceinline__ int permuted_key(int j) {
  return (j & 16) | (j >> 2 & 1) << 3 | (j >> 3 & 1) << 2 | (j & 3);
}
// Key of register r within 32, for lane half h.
__device__ __forceinline__ constexpr int register_key(int r, int h) {
  return 16 * (r / 8) + 8 * h + r % 8;
}

// A lane's query row.
struct LaneRow {
  PackedRow packed;
  bool exists;
  gpu::KeyRange visible;
};

__device__ __forceinline__ LaneRow lane_row(const ForwardArgs &args, const Sequence &s, int32_t head_kv,
                                            int32_t row, int32_t rows) {
  const PackedRow packed = packed_row(args, head_kv, row < rows ? row : rows - 1);
  return {packed, row < rows,
          gpu::visible_keys(packed.i, s.diagonal, args.window_left, args.window_right, s.n_k)};
}

// This lane's chunks of Q: dimensions 16 t + 8 h .. + 7, the order in which K's chunks are read.
template <typename T>
__device__ __forceinline__ void load_q(const ForwardArgs &args, const Sequence &s, const LaneRow &row, int h,
                                       Dwords4 (&q)[T::kDim / 16]) {
  const int64_t at = q_offset(args, args.q, s, row.packed.i, row.packed.head);
#pragma unroll
  for (int t = 0; t < T::kDim / 16; ++t) q[t] = load_chunk(args.q, at, 2 * t + h, 16 * t + 8 * h < args.dim);
}

template <typename Element, typename T, int kTiles>
__device__ __forceinline__ void multiply_kq(const Lds<T> &lds, const Dwords4 (&q)[T::kDim / 16], int j, int h,
                                            Accumulator (&scores)[kTiles]) {
  const int row = permuted_key(j);
#pragma unroll
  for (int b = 0; b < kTiles; ++b) {
    scores[b] = Accumulator(0.0F);
#pragma unroll
    for (int t = 0; t < T::kDim / 16; ++t) {
      const Dwords4 k = lds.k[T::key_chunk(32 * b + row, 2 * t + h)];
      scores[b] = Element::multiply_add(k.xy, q[t].xy, scores[b]);
      scores[b] = Element::multiply_add(k.zw, q[t].zw, scores[b]);
    }
  }
}

template <typename Element, typename T, int kTiles>
__device__ __forceinline__ void multiply_vp(const Lds<T> &lds, const Accumulator (&weights)[kTiles], int j,
                                            int h, Accumulator (&o)[T::kDim / 32]) {
#pragma unroll
  for (int b = 0; b < kTiles; ++b) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Accumulator &w = weights[b];
      const int r = 8 * half;
      const Dwords2 first = {Element::pack(w[r], w[r + 1]), Element::pack(w[r + 2], w[r + 3])};
      const Dwords2 second = {Element::pack(w[r + 4], w[r + 5]), Element::pack(w[r + 6], w[r + 7])};
#pragma unroll
      for (int t = 0; t < T::kDim / 32; ++t) {
        const Dwords4 v = lds.v[T::value_chunk(32 * t + j, 4 * b + 2 * half + h)];
        o[t] = Element::multiply_add(v.xy, first, o[t]);
        o[t] = Element::multiply_add(v.zw, second, o[t]);
      }
    }
  }
}

// Keys that the row does not see score -inf.
template <int kTiles>
__device__ __forceinline__ void mask_scores(const LaneRow &row, int32_t first_key, int h,
                                            Accumulator (&scores)[kTiles]) {
  const int32_t begin = row.visible.begin - first_key - 8 * h;
  const int32_t end = row.visible.end - first_key - 8 * h;
#pragma unroll
  for (int b = 0; b < kTiles; ++b) {
#pragma unroll
    for (int r = 0; r < 16; ++r) {
      const int key = 32 * b + register_key(r, 0);
      if (key < begin || key >= end) scores[b][r] = -kInfinity;
    }
  }
}

template <int kTiles>
__device__ __forceinline__ void modify_scores(const ForwardArgs &args, const Sequence &s, const LaneRow &row,
                                              int32_t first_key, int h, Accumulator (&scores)[kTiles]) {
  const RowModifier modifier = row_modifier(args, s, row.packed);
#pragma unroll
  for (int b = 0; b < kTiles; ++b) {
#pragma unroll
    for (int r = 0; r < 16; ++r) {
      const int32_t j = first_key + 32 * b + register_key(r, h);
      if (j < s.n_k) scores[b][r] = modified_score(args, modifier, scores[b][r], j);
    }
  }
}

// O^T: register 4 g + e of tile t is dimension 32 t + 8 g + 4 h + e.
template <typename T>
__device__ __forceinline__ void store_o(const ForwardArgs &args, const OutputRow &out, int h, float scale,
                                        const Accumulator (&o)[T::kDim / 32]) {
#pragma unroll
  for (int t = 0; t < T::kDim / 32; ++t) {
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      const int d = 32 * t + 8 * g + 4 * h;
      if (d >= args.dim_v) continue;
      float x[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) x[e] = o[t][4 * g + e] * scale;
      if (out.dtype == FLASHATTN_DTYPE_F32) {
        *reinterpret_cast<Dwords4 *>(static_cast<float *>(out.data) + out.offset + d) =
            Dwords4{__builtin_bit_cast(uint32_t, x[0]), __builtin_bit_cast(uint32_t, x[1]),
                    __builtin_bit_cast(uint32_t, x[2]), __builtin_bit_cast(uint32_t, x[3])};
        continue;
      }
      uint32_t bits[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) bits[e] = out.dtype == FLASHATTN_DTYPE_F16 ? f16_of(x[e]) : bf16_of(x[e]);
      *reinterpret_cast<Dwords2 *>(static_cast<uint16_t *>(out.data) + out.offset + d) =
          Dwords2{bits[0] | bits[1] << 16, bits[2] | bits[3] << 16};
    }
  }
}

// kModified: scores are more than a positive multiple of q.k.
template <typename Element, typename T, bool kModified>
__device__ __forceinline__ void attend(const ForwardArgs &args, const gpu::Piece &piece, const Sequence &s,
                                       Lds<T> *lds) {
  constexpr int kTiles = T::kKeys / 32;
  const int32_t rows = s.n_q * args.group;
  const int32_t first_row = piece.tile * T::kRows;
  if (first_row >= rows) return;
  const int32_t last_row = (first_row + T::kRows < rows ? first_row + T::kRows : rows) - 1;
  const gpu::KeyRange steps =
      gpu::split_blocks(gpu::visible_to_rows(first_row, last_row, args.group, s.diagonal, args.window_left,
                                             args.window_right, s.n_k),
                        T::kKeys, piece.split, args.splits);

  const int j = thread_index() % 32;
  const int h = thread_index() % kWaveLanes / 32;
  const int32_t wave_row = first_row + __builtin_amdgcn_readfirstlane(thread_index() / kWaveLanes) * 32;
  const int32_t wave_last = wave_row + 31 < rows ? wave_row + 31 : rows - 1;
  // A wave whose rows all lie past the end only helps to copy.
  const bool works = wave_row < rows;
  gpu::KeyRange seen{0, 0};  // by any row of the wave
  gpu::KeyRange open{0, 0};  // by all of them
  if (works) {
    seen = gpu::visible_to_rows(wave_row, wave_last, args.group, s.diagonal, args.window_left,
                                args.window_right, s.n_k);
    open = gpu::visible_to_all_rows(wave_row, wave_last, args.group, s.diagonal, args.window_left,
                                    args.window_right, s.n_k);
  }
  const LaneRow row = lane_row(args, s, piece.head_kv, wave_row + j, rows);

  Dwords4 q[T::kDim / 16];
  load_q<T>(args, s, row, h, q);
  const StagePlan<T> plan(thread_index());
  Staged<T> staged;
  const StepBase k = step_base<T>(args, args.k, s, piece.head_kv);
  const StepBase v = step_base<T>(args, args.v, s, piece.head_kv);
  if (steps.begin < steps.end)
    load_step<T>(args, s, piece.head_kv, k, v, plan, steps.begin * T::kKeys, &staged);

  const float factor = kModified ? kLog2E : args.scale * kLog2E;
  // An O in f32 shows the last bit of a row's only weight; rounding to 16 bits hides it.
  const bool exact = args.splits == 1 && args.dtype_o == FLASHATTN_DTYPE_F32;
  Softmax<kTiles> softmax;
  Accumulator o[T::kDim / 32];
#pragma unroll
  for (int t = 0; t < T::kDim / 32; ++t) o[t] = Accumulator(0.0F);

  for (int32_t step = steps.begin; step < steps.end; ++step) {
    const int32_t first_key = step * T::kKeys;
    pad_step<T>(args, plan, &staged);
    store_step<T>(plan, staged, lds);
    block_barrier();
    if (step + 1 < steps.end) load_step<T>(args, s, piece.head_kv, k, v, plan, first_key + T::kKeys, &staged);
    if (first_key < seen.end && first_key + T::kKeys > seen.begin) {
      Accumulator scores[kTiles];
      multiply_kq<Element, T, kTiles>(*lds, q, j, h, scores);
      if (kModified) modify_scores<kTiles>(args, s, row, first_key, h, scores);
      if (first_key < open.begin || first_key + T::kKeys > open.end)
        mask_scores<kTiles>(row, first_key, h, scores);
      const float rescale = softmax.step(factor, exact, scores);
#pragma unroll
      for (int t = 0; t < T::kDim / 32; ++t) o[t] *= rescale;
      multiply_vp<Element, T, kTiles>(*lds, scores, j, h, o);
    }
    block_barrier();  // all have read the step before the next one overwrites it
  }

  const float sum = softmax.total();
  if (!row.exists) return;
  const float m = kModified ? softmax.maximum : softmax.maximum * args.scale;
  const RowResult result = finish_tile_row(args, s, row.packed.head, m, sum);
  if (h == 0) store_lse(args, s, piece.split, row.packed, result.lse);
  store_o<T>(args, output_row(args, s, piece.split, row.packed), h, result.scale, o);
}

template <typename Element, int kDim, bool kModified>
__device__ __forceinline__ void forward(const ForwardArgs &args) {
  using T = Tile<kDim>;
  __shared__ Lds<T> lds;
  const int32_t pairs = args.batch * args.heads_kv;  // with tiles and splits within 2^31
  const gpu::Piece piece = gpu::piece_at<int32_t>(static_cast<int32_t>(block_index()), pairs, args.heads_kv,
                                                  args.q_tiles, args.splits, args.section_heads);
  const Sequence s = load_sequence(args, piece.batch);
  if (!s.valid) return;
  // Every wave looks at every page, and all come to the same answer.
  if (any_in_wave(bad_page(args, s, thread_index() % kWaveLanes, kWaveLanes))) return;
  attend<Element, T, kModified>(args, piece, s, &lds);
}

}  // namespace flashattn::hip
