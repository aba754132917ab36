// SPDX-License-Identifier: Apache-2.0
#include "kernel.cuh"

namespace flashattn::sm90 {

using C = Shipped<__half, 256>;
static_assert(matches<C>(geometry_of(256)));

extern "C" __global__ void __launch_bounds__(C::kThreads, 1)
    fwd_sm90_f16_d256(const __grid_constant__ FwdParams params) {
  forward<C>(params);
}

}  // namespace flashattn::sm90
