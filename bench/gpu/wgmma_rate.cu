// SPDX-License-Identifier: Apache-2.0
// Cycles of one wgmma by operand source, width and warpgroups of the SM: what the tensor cores give before
// any softmax.
#include "mbarrier.cuh"
#include "wgmma.cuh"

using namespace flashattn::ptx;

template <int kN, bool kRegisterA, bool kBoth>
__device__ inline void run(long long *cycles) {
  extern __shared__ __align__(1024) unsigned char memory[];
  for (int i = threadIdx.x; i < 49152 / 4; i += blockDim.x)
    reinterpret_cast<uint32_t *>(memory)[i] = 0x3c003c00u + i;
  __syncthreads();
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  const uint32_t base = smem_address(memory);
  const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  float d[kN / 2], e[32];
  for (int i = 0; i < kN / 2; ++i) d[i] = 0;
  for (int i = 0; i < 32; ++i) e[i] = 0;
  uint32_t a[16];
  for (int i = 0; i < 16; ++i) a[i] = threadIdx.x + i;
  __syncthreads();
  const long long start = clock64();
  for (int i = 0; i < 128; ++i) {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      if (kRegisterA) {
        Wgmma<__nv_bfloat16, kN>::rs(d, a + 4 * step,
                                     Matrix<1024 * 16, 1024>(base + 16384 + step * 2048).descriptor());
      } else {
        Wgmma<__nv_bfloat16, kN>::ss(d, Matrix<16, 1024>(base + (group & 1) * 8192 + step * 32).descriptor(),
                                     Matrix<16, 1024>(base + 16384 + step * 32).descriptor());
      }
    }
    if (kBoth) {
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        Wgmma<__nv_bfloat16, 64>::rs(e, a + 4 * step,
                                     Matrix<1024 * 16, 1024>(base + 16384 + step * 2048).descriptor());
      }
    }
    wgmma_commit();
    wgmma_wait<1>();
  }
  wgmma_wait<0>();
  wgmma_pin(d);
  wgmma_pin(e);
  const long long stop = clock64();
  float sum = 0;
  for (int i = 0; i < kN / 2; ++i) sum += d[i];
  for (int i = 0; i < 32; ++i) sum += e[i];
  if (threadIdx.x == 0) cycles[blockIdx.x] = stop - start;
  if (sum == 12345.678f) cycles[blockIdx.x] = 0;
}

#define RATE(NAME, N, REGISTERS, BOTH)                                           \
  extern "C" __global__ void __launch_bounds__(512, 1) NAME(long long *cycles) { \
    run<N, REGISTERS, BOTH>(cycles);                                             \
  }
RATE(ss64, 64, false, false)
RATE(ss128, 128, false, false)
RATE(ss176, 176, false, false)
RATE(rs64, 64, true, false)
RATE(rs128, 128, true, false)
RATE(ss64_rs64, 64, false, true)
