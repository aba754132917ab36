// SPDX-License-Identifier: Apache-2.0
// The entry points of one element type and head dimension: FLASHATTN_ELEMENT is F16 or Bf16, FLASHATTN_HEAD_DIM 64, 128
// or 256. Smaller head dimensions, multiples of 8, are padded in LDS.
#include "backends/hip/kernels/gfx942/fwd.h"

namespace flashattn::hip {

constexpr int kBlockThreads = ShapeOf<FLASHATTN_HEAD_DIM>::kThreads;

extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(kBlockThreads, kBlockThreads))) void fwd_plain(
    ForwardArgs args, int64_t /*grid*/) {
  forward<FLASHATTN_ELEMENT, FLASHATTN_HEAD_DIM, false>(args);
}

extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(kBlockThreads, kBlockThreads))) void fwd_modified(
    ForwardArgs args, int64_t /*grid*/) {
  forward<FLASHATTN_ELEMENT, FLASHATTN_HEAD_DIM, true>(args);
}

}  // namespace flashattn::hip
