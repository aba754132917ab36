// SPDX-License-Identifier: Apache-2.0
// GPU rung 1, the definition: three kernels, scores S and probabilities P whole in device memory, float32 [n][n] per head.
#include "bench/ladder/cuda/head.cuh"

namespace flashattn::ladder {
namespace {

// A score per thread.
extern "C" __global__ void naive_scores(const __nv_bfloat16 *q, const __nv_bfloat16 *k, float *s, int n,
                                        float scale, int causal) {
  const int j = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int i = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (i >= n || j >= n) return;
  const Head head = head_of(q, k, k, nullptr, n, static_cast<int>(blockIdx.z));
  float dot = 0;
  for (int d = 0; d < kDim; ++d) {
    dot += __bfloat162float(head.q[static_cast<int64_t>(i) * kDim + d]) *
           __bfloat162float(head.k[static_cast<int64_t>(j) * kDim + d]);
  }
  s[(static_cast<int64_t>(blockIdx.z) * n + i) * n + j] = sees(i, j, n, causal) ? scale * dot : -INFINITY;
}

// Largest or sum over the threads of a block, which are a power of two; scratch has a float for each.
template <typename Join>
__device__ float over_block(float value, float *scratch, const Join &join) {
  scratch[threadIdx.x] = value;
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) scratch[threadIdx.x] = join(scratch[threadIdx.x], scratch[threadIdx.x + half]);
  }
  __syncthreads();
  const float result = scratch[0];
  __syncthreads();
  return result;
}

// A row per block.
extern "C" __global__ void naive_softmax(const float *s, float *p, int n) {
  __shared__ float scratch[256];
  const int64_t row = (static_cast<int64_t>(blockIdx.y) * n + blockIdx.x) * n;
  float m = -INFINITY;
  for (int j = static_cast<int>(threadIdx.x); j < n; j += static_cast<int>(blockDim.x))
    m = fmaxf(m, s[row + j]);
  m = over_block(m, scratch, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (int j = static_cast<int>(threadIdx.x); j < n; j += static_cast<int>(blockDim.x))
    sum += expf(s[row + j] - m);
  sum = over_block(sum, scratch, [](float a, float b) { return a + b; });
  for (int j = static_cast<int>(threadIdx.x); j < n; j += static_cast<int>(blockDim.x)) {
    p[row + j] = expf(s[row + j] - m) / sum;
  }
}

// An element of O per thread: threads of a warp are neighbours in a row of V.
extern "C" __global__ void naive_values(const float *p, const __nv_bfloat16 *v, __nv_bfloat16 *o, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y);
  const auto d = static_cast<int>(threadIdx.x);
  if (i >= n) return;
  const Head head = head_of(nullptr, nullptr, v, o, n, static_cast<int>(blockIdx.y));
  const int64_t row = (static_cast<int64_t>(blockIdx.y) * n + i) * n;
  float sum = 0;
  for (int j = 0; j < n; ++j)
    sum += p[row + j] * __bfloat162float(head.v[static_cast<int64_t>(j) * kDim + d]);
  head.o[static_cast<int64_t>(i) * kDim + d] = __float2bfloat16(sum);
}

}  // namespace
}  // namespace flashattn::ladder
