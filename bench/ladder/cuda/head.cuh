// SPDX-License-Identifier: Apache-2.0
// What the GPU rungs share: heads of [n][kDim] bfloat16 one after the other, head blockIdx.y.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace flashattn::ladder {

constexpr int kDim = 64;
// A block of the tiled rungs takes kTile rows, and kTile keys at a time.
constexpr int kTile = 64;

struct Head {
  const __nv_bfloat16 *q;
  const __nv_bfloat16 *k;
  const __nv_bfloat16 *v;
  __nv_bfloat16 *o;
};

__device__ inline Head head_of(const __nv_bfloat16 *q, const __nv_bfloat16 *k, const __nv_bfloat16 *v,
                               __nv_bfloat16 *o, int n, int head) {
  const int64_t at = static_cast<int64_t>(head) * n * kDim;
  return {q + at, k + at, v + at, o + at};
}

// Whether query i sees key j.
__device__ inline bool sees(int i, int j, int n, int causal) {
  return j < n && (causal == 0 || j <= i);
}

}  // namespace flashattn::ladder
