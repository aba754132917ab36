// SPDX-License-Identifier: Apache-2.0
// GPU rung 2: the tile in shared memory, the online softmax, products by float32 multiply-adds. 256 threads, each with 4 x 4
// elements of the tile of scores and of the tile of O. Nothing in device memory but Q, K, V and O.
#include "bench/ladder/cuda/head.cuh"

namespace flashattn::ladder {
namespace {

constexpr int kPitch = kTile + 1;  // floats from row to row: columns fall into different banks
constexpr int kEach = 4;
static_assert(kDim == kTile, "Q, K, V and the scores are tiles of one shape");

struct Shared {
  float q[kTile * kPitch];
  float kv[kTile * kPitch];  // the tile of K, then that of V
  float s[kTile * kPitch];   // scores, then exp(s - m)
  float keep[kTile];
  float sum[kTile];
};
static_assert(sizeof(Shared) == 50432, "run.py launches with this many bytes");

// Rows first .. of x as float32; rows at or past n are 0.
__device__ void load_tile(const __nv_bfloat16 *x, int first, int n, float *tile) {
  for (int at = static_cast<int>(threadIdx.x); at < kTile * kDim; at += static_cast<int>(blockDim.x)) {
    const int row = at / kDim;
    const int d = at % kDim;
    tile[row * kPitch + d] =
        first + row < n ? __bfloat162float(x[static_cast<int64_t>(first + row) * kDim + d]) : 0.0F;
  }
}

extern "C" __global__ void tiled(const __nv_bfloat16 *q, const __nv_bfloat16 *k, const __nv_bfloat16 *v,
                                 __nv_bfloat16 *o, int n, float scale, int causal) {
  extern __shared__ __align__(128) char memory[];
  Shared &t = *reinterpret_cast<Shared *>(memory);
  const Head head = head_of(q, k, v, o, n, static_cast<int>(blockIdx.y));
  const int first = static_cast<int>(blockIdx.x) * kTile;
  const int row = static_cast<int>(threadIdx.x) / 16 * kEach;  // of this thread's 4 x 4 elements
  const int column = static_cast<int>(threadIdx.x) % 16;       // ... columns column, column + 16, ...
  const int soft_row =
      static_cast<int>(threadIdx.x) / 4;  // the row whose softmax this thread shares with three
  float m = -INFINITY;
  float sum = 0;
  float acc[kEach][kEach] = {};
  load_tile(head.q, first, n, t.q);
  const int last_key = causal != 0 ? min(n, first + kTile) : n;
  for (int j = 0; j < last_key; j += kTile) {
    __syncthreads();  // nobody reads the last V any more
    load_tile(head.k, j, n, t.kv);
    __syncthreads();
    float scores[kEach][kEach] = {};
    for (int d = 0; d < kDim; ++d) {
      for (int a = 0; a < kEach; ++a) {
        for (int b = 0; b < kEach; ++b) {
          scores[a][b] += t.q[(row + a) * kPitch + d] * t.kv[(column + 16 * b) * kPitch + d];
        }
      }
    }
    for (int a = 0; a < kEach; ++a) {
      for (int b = 0; b < kEach; ++b) {
        const int key = column + 16 * b;
        t.s[(row + a) * kPitch + key] =
            sees(first + row + a, j + key, n, causal) ? scale * scores[a][b] : -INFINITY;
      }
    }
    __syncthreads();
    load_tile(head.v, j, n, t.kv);
    // m' and d' of docs/online-softmax.md, (4) and (5), by four neighbouring threads a row. Every row sees key 0, so that m'
    // is a number from the first tile on.
    float *s = t.s + soft_row * kPitch;
    float largest = m;
    for (int key = static_cast<int>(threadIdx.x) % 4; key < kTile; key += 4) largest = fmaxf(largest, s[key]);
    for (int step = 1; step < 4; step *= 2)
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, step));
    const float keep = expf(m - largest);
    float added = 0;
    for (int key = static_cast<int>(threadIdx.x) % 4; key < kTile; key += 4) {
      s[key] = expf(s[key] - largest);
      added += s[key];
    }
    for (int step = 1; step < 4; step *= 2) added += __shfl_xor_sync(0xffffffffU, added, step);
    sum = sum * keep + added;
    m = largest;
    if (threadIdx.x % 4 == 0) t.keep[soft_row] = keep;
    __syncthreads();
    for (int a = 0; a < kEach; ++a) {
      for (float &x : acc[a]) x *= t.keep[row + a];
    }
    for (int key = 0; key < kTile; ++key) {
      for (int a = 0; a < kEach; ++a) {
        for (int b = 0; b < kEach; ++b) {
          acc[a][b] += t.s[(row + a) * kPitch + key] * t.kv[key * kPitch + column + 16 * b];
        }
      }
    }
  }
  if (threadIdx.x % 4 == 0) t.sum[soft_row] = sum;
  __syncthreads();
  for (int a = 0; a < kEach; ++a) {
    if (first + row + a >= n) continue;
    for (int b = 0; b < kEach; ++b) {
      head.o[static_cast<int64_t>(first + row + a) * kDim + column + 16 * b] =
          __float2bfloat16(acc[a][b] / t.sum[row + a]);
    }
  }
}

}  // namespace

}  // namespace flashattn::ladder
