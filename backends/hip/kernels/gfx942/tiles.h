// SPDX-License-Identifier: Apache-2.0
// How K and V lie in LDS, in chunks of 16 bytes, and how they get there. K as [key][dim]; V transposed,
// [dim][key], so that both products read their operand with one 16-byte read per lane. Each row's chunks are
// permuted by an exclusive or, such that every group of lanes that the LDS serves together touches all 32
// banks once (tests/support/gcn/lds.h names the groups; bench/gfx942_model counts the conflicts: none).
#pragma once

#include "backends/hip/kernels/common/sequence.h"
#include "backends/hip/kernels/gfx942/matrix.h"
#include "backends/hip/kernels/gfx942/shapes.h"

namespace flashattn::hip {

template <int kDimension>
struct Tile : ShapeOf<kDimension> {
  using Shape = ShapeOf<kDimension>;
  static constexpr int kDim = kDimension;
  static constexpr int kKeyChunks = kDim / 8;            // chunks of a row of K
  static constexpr int kValueChunks = Shape::kKeys / 8;  // chunks of a row of V transposed
  static constexpr int kLoads = 4;                       // chunks of K, and of V, per thread and step

  // Chunk `chunk` of key `row`.
  static __device__ __forceinline__ int key_chunk(int row, int chunk) {
    return row * kKeyChunks + (chunk ^ ((row & 3) | (row >> 1 & 4)));
  }

  // Chunk `chunk` (keys 8 * chunk ..) of dimension d.
  static __device__ __forceinline__ int value_chunk(int d, int chunk) {
    if (kValueChunks >= 8) return d * kValueChunks + (chunk ^ ((d ^ d >> 3) & 7));
    return d * kValueChunks + (chunk ^ (((d >> 1 ^ d >> 3) & 1) | (d >> 4 & 1) << 1));
  }
};

template <typename T>
struct Lds {
  Dwords4 k[T::kKeys * T::kKeyChunks];
  Dwords4 v[T::kDim * T::kValueChunks];
};

// A thread's share of one step's K and V, on its way from memory to LDS.
//   K: chunk tid % kKeyChunks of keys tid / kKeyChunks + i * (256 / kKeyChunks)
//   V: keys 4 * group .. + 3, dimensions 8 * chunk .. + 7, transposed on the way
template <typename T>
struct Staged {
  Dwords4 k[T::kLoads];
  Dwords4 v[T::kLoads];
};

template <typename T>
struct StagePlan {
  int key_chunk, key_row;
  int value_chunk, value_group;

  __device__ __forceinline__ explicit StagePlan(int thread) {
    key_chunk = thread % T::kKeyChunks;
    key_row = thread / T::kKeyChunks;
    // The lowest bit picks one of two neighbouring groups, so that 16 lanes write both halves of eight
    // chunks.
    value_chunk = thread / 2 % T::kKeyChunks;
    value_group = thread % 2 + thread / (2 * T::kKeyChunks) * 2;
  }
};

__device__ __forceinline__ Dwords4 load_chunk(const gpu::TensorArg &tensor, int64_t row, int chunk,
                                              bool inside) {
  const uint16_t *at = static_cast<const uint16_t *>(tensor.data) + row + (inside ? chunk * 8 : 0);
  const Dwords4 loaded = *reinterpret_cast<const Dwords4 *>(at);
  return inside ? loaded : Dwords4{0, 0, 0, 0};
}

// Where whole steps of a tensor begin, when its rows lie one stride apart and close enough for 32-bit
// offsets: the address is then a scalar that moves plus an offset per thread that does not.
struct StepBase {
  const char *first;  // of key 0
  int64_t row_bytes;
  bool usable;
};

template <typename T>
__device__ __forceinline__ StepBase step_base(const ForwardArgs &args, const gpu::TensorArg &tensor,
                                              const Sequence &s, int32_t head_kv) {
  const int64_t row_bytes = tensor.stride_seq * 2;
  const bool usable = (args.flags & gpu::kPaged) == 0 && row_bytes < INT32_MAX / T::kKeys;
  const int64_t at = usable ? kv_offset(args, tensor, s, 0, head_kv) : 0;
  return {static_cast<const char *>(tensor.data) + 2 * at, row_bytes, usable};
}

// Four chunks of a thread, `apart` rows from one to the next, the first in `row` of the step at `base`.
__device__ __forceinline__ void load_rows(const StepBase &base, int32_t first_key, int row, int apart,
                                          int chunk, bool inside, Dwords4 (&to)[4]) {
  const auto offset =
      static_cast<uint32_t>(row * static_cast<int32_t>(base.row_bytes) + (inside ? chunk * 16 : 0));
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const char *at = base.first + (first_key + i * apart) * base.row_bytes;
    to[i] = *reinterpret_cast<const Dwords4 *>(at + offset);
  }
}

// The same row by row, for the last step, for pages and for far-apart rows. A key past the sequence repeats
// its last one, whose weight there is 0: what lies past a sequence is never read.
__device__ __forceinline__ void load_any_rows(const ForwardArgs &args, const gpu::TensorArg &tensor,
                                              const Sequence &s, int32_t head_kv, int32_t first_key, int row,
                                              int apart, int chunk, bool inside, Dwords4 (&to)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int32_t j = first_key + row + i * apart;
    const int64_t at =
        kv_offset(args, tensor, s, j < s.n_k ? j : s.n_k - 1, head_kv) + (inside ? chunk * 8 : 0);
    to[i] = *reinterpret_cast<const Dwords4 *>(static_cast<const uint16_t *>(tensor.data) + at);
  }
}

__device__ __forceinline__ void clear_unless(bool inside, Dwords4 (&chunks)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) chunks[i] = inside ? chunks[i] : Dwords4{0, 0, 0, 0};
}

// Keys first_key .. + kKeys. Dimensions past the tensor's are 0.
template <typename T>
__device__ __forceinline__ void load_step(const ForwardArgs &args, const Sequence &s, int32_t head_kv,
                                          const StepBase &k, const StepBase &v, const StagePlan<T> &plan,
                                          int32_t first_key, Staged<T> *staged) {
  constexpr int kRowsApart = T::kThreads / T::kKeyChunks;
  const bool k_inside = plan.key_chunk * 8 < args.dim;
  const bool v_inside = plan.value_chunk * 8 < args.dim_v;
  if (k.usable && v.usable && first_key + T::kKeys <= s.n_k) {
    load_rows(k, first_key, plan.key_row, kRowsApart, plan.key_chunk, k_inside, staged->k);
    load_rows(v, first_key, 4 * plan.value_group, 1, plan.value_chunk, v_inside, staged->v);
  } else {
    load_any_rows(args, args.k, s, head_kv, first_key, plan.key_row, kRowsApart, plan.key_chunk, k_inside,
                  staged->k);
    load_any_rows(args, args.v, s, head_kv, first_key, 4 * plan.value_group, 1, plan.value_chunk, v_inside,
                  staged->v);
  }
}

// When the chunks have arrived: those past the tensor's dimensions become 0.
template <typename T>
__device__ __forceinline__ void pad_step(const ForwardArgs &args, const StagePlan<T> &plan,
                                         Staged<T> *staged) {
  if (args.dim < T::kDim) clear_unless(plan.key_chunk * 8 < args.dim, staged->k);
  if (args.dim_v < T::kDim) clear_unless(plan.value_chunk * 8 < args.dim_v, staged->v);
}

template <typename T>
__device__ __forceinline__ void store_step(const StagePlan<T> &plan, const Staged<T> &staged, Lds<T> *lds) {
  constexpr int kRowsApart = T::kThreads / T::kKeyChunks;
#pragma unroll
  for (int i = 0; i < T::kLoads; ++i) {
    lds->k[T::key_chunk(plan.key_row + i * kRowsApart, plan.key_chunk)] = staged.k[i];
  }
  constexpr uint32_t kLowHalves = 0x05040100U;
  constexpr uint32_t kHighHalves = 0x07060302U;
  Dwords2 *halves = reinterpret_cast<Dwords2 *>(lds->v);
  // With four chunks a row, lanes of odd chunk quads write their two dimensions the other way round: 16 lanes
  // then touch rows of both parities.
  const int first = T::kValueChunks >= 8 ? 0 : plan.value_chunk >> 2 & 1;
#pragma unroll
  for (int c = 0; c < 4; ++c) {  // dimensions 2 c and 2 c + 1 of the eight
    Dwords2 pair[2];
    pair[0].x = __builtin_amdgcn_perm(staged.v[1][c], staged.v[0][c], kLowHalves);
    pair[0].y = __builtin_amdgcn_perm(staged.v[3][c], staged.v[2][c], kLowHalves);
    pair[1].x = __builtin_amdgcn_perm(staged.v[1][c], staged.v[0][c], kHighHalves);
    pair[1].y = __builtin_amdgcn_perm(staged.v[3][c], staged.v[2][c], kHighHalves);
#pragma unroll
    for (int turn = 0; turn < 2; ++turn) {
      const int odd = turn ^ first;
      const int d = plan.value_chunk * 8 + 2 * c + odd;
      const Dwords2 value = odd == 0 ? pair[0] : pair[1];
      halves[T::value_chunk(d, plan.value_group / 2) * 2 + plan.value_group % 2] = value;
    }
  }
}

}  // namespace flashattn::hip
