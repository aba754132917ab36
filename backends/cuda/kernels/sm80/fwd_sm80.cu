// SPDX-License-Identifier: Apache-2.0
// One kernel per compilation; the build defines which: FLASHATTN_ELEMENT (its type) and
// FLASHATTN_HEAD_DIM (its padded head dimension). Each has two entry points: the plain one, and one for
// scores that are more than a positive multiple of q.k (softcap, ALiBi, bias), whose code would cost the
// plain one registers.
#include "backends/cuda/kernels/sm80/fwd.cuh"
#include "backends/cuda/kernels/sm80/shapes.h"

namespace flashattn::cuda {

using Kernel = ShapeOf<FLASHATTN_HEAD_DIM>;
using KernelTile = Tile<FLASHATTN_ELEMENT, FLASHATTN_HEAD_DIM, Kernel::kWarps, Kernel::kWarpTiles,
                        Kernel::kKeys, Kernel::kResident>;
static_assert(KernelTile::kSharedBytes == Kernel::kTile.shared_bytes &&
                  KernelTile::kRows == Kernel::kTile.rows && KernelTile::kThreads == Kernel::kTile.threads,
              "the host launches what shapes.h says");

extern "C" __global__ void __launch_bounds__(KernelTile::kThreads, KernelTile::kResident)
    fwd_plain(const __grid_constant__ ForwardArgs args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  forward<KernelTile, false>(args, memory);
}

extern "C" __global__ void __launch_bounds__(KernelTile::kThreads, KernelTile::kResident)
    fwd_modified(const __grid_constant__ ForwardArgs args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  forward<KernelTile, true>(args, memory);
}

}  // namespace flashattn::cuda
