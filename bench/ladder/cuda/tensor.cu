// SPDX-License-Identifier: Apache-2.0
// GPU rung 3: the products on the tensor cores, through the fragments of <mma.h> (CUDA C++ programming guide, "Warp matrix
// functions"). Which element of a fragment a thread holds is not specified there, so scores, probabilities and O pass
// through shared memory; the library's kernels keep them in registers. 4 warps, 16 rows each.
#include <mma.h>

#include "bench/ladder/cuda/head.cuh"

namespace flashattn::ladder {
namespace {

namespace wmma = nvcuda::wmma;

constexpr int kPart = 16;  // rows, columns and depth of a fragment
constexpr int kWarps = kTile / kPart;
constexpr int kThreads = 32 * kWarps;

struct Shared {
  __nv_bfloat16 q[kTile * kDim];
  __nv_bfloat16 k[kTile * kDim];
  __nv_bfloat16 v[kTile * kDim];
  __nv_bfloat16 p[kTile * kTile];
  float s[kTile * kTile];
  float o[kTile * kDim];
};
static_assert(sizeof(Shared) == 65536, "run.py launches with this many bytes");

using A = wmma::fragment<wmma::matrix_a, kPart, kPart, kPart, __nv_bfloat16, wmma::row_major>;
using B = wmma::fragment<wmma::matrix_b, kPart, kPart, kPart, __nv_bfloat16, wmma::row_major>;
using BTransposed = wmma::fragment<wmma::matrix_b, kPart, kPart, kPart, __nv_bfloat16, wmma::col_major>;
using Sum = wmma::fragment<wmma::accumulator, kPart, kPart, kPart, float>;

// Rows first .. of x, 16 bytes a thread at a time; rows at or past n are 0.
__device__ void load_tile(const __nv_bfloat16 *x, int first, int n, __nv_bfloat16 *tile) {
  constexpr int kEach = 8;
  for (int at = static_cast<int>(threadIdx.x); at < kTile * kDim / kEach; at += kThreads) {
    const int row = at / (kDim / kEach);
    const uint4 zero = {0, 0, 0, 0};
    reinterpret_cast<uint4 *>(tile)[at] =
        first + row < n ? reinterpret_cast<const uint4 *>(x + static_cast<int64_t>(first) * kDim)[at] : zero;
  }
}

extern "C" __global__ void tensor(const __nv_bfloat16 *q, const __nv_bfloat16 *k, const __nv_bfloat16 *v,
                                  __nv_bfloat16 *o, int n, float scale, int causal) {
  extern __shared__ __align__(128) char memory[];
  Shared &t = *reinterpret_cast<Shared *>(memory);
  const Head head = head_of(q, k, v, o, n, static_cast<int>(blockIdx.y));
  const int first = static_cast<int>(blockIdx.x) * kTile;
  const int warp_row =
      static_cast<int>(threadIdx.x) / 32 * kPart;  // the first of this warp's rows in the tile
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = warp_row + lane / 2;  // the row whose softmax this lane shares with its neighbour
  const int half = lane % 2 * (kTile / 2);
  float m = -INFINITY;
  float sum = 0;
  load_tile(head.q, first, n, t.q);
  for (int d = 0; d < kDim / 2; ++d) t.o[row * kDim + half + d] = 0;
  const int last_key = causal != 0 ? min(n, first + kTile) : n;
  for (int j = 0; j < last_key; j += kTile) {
    __syncthreads();  // nobody reads the last K and V any more
    load_tile(head.k, j, n, t.k);
    load_tile(head.v, j, n, t.v);
    __syncthreads();
    for (int key = 0; key < kTile; key += kPart) {
      Sum scores;
      wmma::fill_fragment(scores, 0.0F);
      for (int d = 0; d < kDim; d += kPart) {
        A rows;
        BTransposed keys;
        wmma::load_matrix_sync(rows, t.q + warp_row * kDim + d, kDim);
        wmma::load_matrix_sync(keys, t.k + key * kDim + d, kDim);
        wmma::mma_sync(scores, rows, keys, scores);
      }
      wmma::store_matrix_sync(t.s + warp_row * kTile + key, scores, kTile, wmma::mem_row_major);
    }
    __syncwarp();
    // m' and d' of docs/online-softmax.md, (4) and (5). Every row sees key 0: m' is a number from the first tile on.
    float *s = t.s + row * kTile + half;
    float largest = m;
    for (int key = 0; key < kTile / 2; ++key) {
      s[key] = sees(first + row, j + half + key, n, causal) ? scale * s[key] : -INFINITY;
      largest = fmaxf(largest, s[key]);
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
    const float keep = expf(m - largest);
    float added = 0;
    for (int key = 0; key < kTile / 2; ++key) {
      const float p = expf(s[key] - largest);
      added += p;
      t.p[row * kTile + half + key] = __float2bfloat16(p);
    }
    added += __shfl_xor_sync(0xffffffffU, added, 1);
    sum = sum * keep + added;
    m = largest;
    for (int d = 0; d < kDim / 2; ++d) t.o[row * kDim + half + d] *= keep;
    __syncwarp();
    for (int d = 0; d < kDim; d += kPart) {
      Sum acc;
      wmma::load_matrix_sync(acc, t.o + warp_row * kDim + d, kDim, wmma::mem_row_major);
      for (int key = 0; key < kTile; key += kPart) {
        A weights;
        B values;
        wmma::load_matrix_sync(weights, t.p + warp_row * kTile + key, kTile);
        wmma::load_matrix_sync(values, t.v + key * kDim + d, kDim);
        wmma::mma_sync(acc, weights, values, acc);
      }
      wmma::store_matrix_sync(t.o + warp_row * kDim + d, acc, kDim, wmma::mem_row_major);
    }
    __syncwarp();
  }
  if (first + row >= n) return;
  for (int d = 0; d < kDim / 2; ++d) {
    head.o[static_cast<int64_t>(first + row) * kDim + half + d] =
        __float2bfloat16(t.o[row * kDim + half + d] / sum);
  }
}

}  // namespace

}  // namespace flashattn::ladder
