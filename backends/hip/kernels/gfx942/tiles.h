// SPDX-License-Identifier: Apache-2.0
// How K and V lie in LDS, in chunks of 16 bytes, and how they get there. K as [key][dim]; V transposed, [dim][key], so
// that both products read their operand with one 16-byte read per lane. Each row's chunks are permuted by an
// exclusive or, such that every group of lanes that the LDS serves together touches all 32 banks once
// (tests/support/gcn/lds.h names the groups; bench/gfx942_model counts the conflicts: none).
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
    // The lowest bit picks one of two neighbouring groups, so that 16 lanes write both halves of eight chunks.
    value_chunk = thread / 2 % T::kKeyChunks;
    value_group = thread % 2 + thread / (2 * T::kKeyChunks) * 2;
  }
};

__device__ __forceinline__ Dwords4 load_chunk(const gpu::TensorArg &tensor, int64_t row, int chunk, bool inside) {
  const uint16_t *at = static_cast<const uint16_t *>(tensor.data) + row + (inside ? chunk * 8 : 0);
  const Dwords4 loaded = *reinterpret_cast<const Dwords4 *>(at);
  return inside ? loaded : Dwords4{0, 0, 0, 0};
}

// Keys first_key .. + kKeys. A key past the sequence repeats its last one, whose weight there is 0: what lies past a
// sequence is never read. Dimensions past the tensor's are 0.
template <typename T>
__device__ __forceinline__ void load_step(const ForwardArgs &args, const Sequence &s, int32_t head_kv,
                                          const StagePlan<T> &plan, int32_t first_key, Staged<T> *staged) {
  constexpr int kRowsApart = T::kThreads / T::kKeyChunks;
#pragma unroll
  for (int i = 0; i < T::kLoads; ++i) {
    const int32_t j = first_key + plan.key_row + i * kRowsApart;
    const int64_t row = kv_offset(args, args.k, s, j < s.n_k ? j : s.n_k - 1, head_kv);
    staged->k[i] = load_chunk(args.k, row, plan.key_chunk, plan.key_chunk * 8 < args.dim);
  }
#pragma unroll
  for (int i = 0; i < T::kLoads; ++i) {
    const int32_t j = first_key + 4 * plan.value_group + i;
    const int64_t row = kv_offset(args, args.v, s, j < s.n_k ? j : s.n_k - 1, head_kv);
    staged->v[i] = load_chunk(args.v, row, plan.value_chunk, plan.value_chunk * 8 < args.dim_v);
  }
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
  // With four chunks a row, lanes of odd chunk quads write their two dimensions the other way round: 16 lanes then
  // touch rows of both parities.
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
