// SPDX-License-Identifier: Apache-2.0
// One fault of each kind that a tool of compute-sanitizer is relied on for, and a run without any:
//     planted none | memcheck | racecheck | initcheck | synccheck
// A tool whose own fault passes unseen proves nothing about a kernel.
#include <cstdio>
#include <cstring>

namespace {

constexpr int kThreads = 128;

// Reverses a block's values through shared memory.
__global__ void reverse(const int *from, int *to, bool skip_barrier, int past) {
  __shared__ int values[kThreads];
  values[threadIdx.x] = from[threadIdx.x];
  if (!skip_barrier) __syncthreads();
  to[threadIdx.x + past] = values[kThreads - 1 - threadIdx.x];
}

// Half of a warp waits for a barrier that the other half never reaches.
__global__ void half_barrier(int *to) {
  if (threadIdx.x % 32 < 16) __syncthreads();
  to[threadIdx.x] = 1;
}

}  // namespace

int main(int argc, char **argv) {
  const char *fault = argc > 1 ? argv[1] : "none";
  int *from = nullptr;
  int *to = nullptr;
  if (cudaMalloc(&from, kThreads * sizeof(int)) != cudaSuccess) return 2;
  if (cudaMalloc(&to, kThreads * sizeof(int)) != cudaSuccess) return 2;
  if (std::strcmp(fault, "initcheck") != 0) cudaMemset(from, 0, kThreads * sizeof(int));
  if (std::strcmp(fault, "synccheck") == 0) {
    half_barrier<<<1, kThreads>>>(to);
  } else {
    reverse<<<1, kThreads>>>(from, to, std::strcmp(fault, "racecheck") == 0,
                             std::strcmp(fault, "memcheck") == 0 ? kThreads : 0);
  }
  const cudaError_t result = cudaDeviceSynchronize();
  std::printf("%s: %s\n", fault, cudaGetErrorString(result));
  return 0;
}
