// SPDX-License-Identifier: Apache-2.0
// Order between threads and between proxies, and the register budget of a warpgroup.
#pragma once

#include <cstdint>

namespace flashattn::ptx {

// Ordinary stores to shared memory become visible to the copy engine and the tensor cores
// (PTX ISA, "membar/fence": fence.proxy.async). Each writing thread fences before it signals.
__device__ inline void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// PTX ISA, "setmaxnreg": every warp of the warpgroup executes it; the sum over the block must fit the
// registers the block was launched with.
template <int kRegisters>
__device__ inline void registers_shrink() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void registers_grow() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace flashattn::ptx
