// SPDX-License-Identifier: Apache-2.0
// One experimental kernel, its configuration given on the command line (build.py).
#include "fwd.cuh"

using namespace flashattn::sm90;
using VariantConfig =
    Config<ELEMENT, HEAD_DIM, BLOCK_M, BLOCK_N, STAGES, QUERY_BUFFERS, Reference::REFERENCE>;

extern "C" __global__ void __launch_bounds__(VariantConfig::kThreads, 1)
    variant(const __grid_constant__ FwdParams params) {
  forward<VariantConfig>(params);
}

// Read back by build.py, so that the host never guesses the size of SharedMemory.
extern "C" __device__ __constant__ const int variant_shared_bytes = sizeof(SharedMemory<VariantConfig>);
