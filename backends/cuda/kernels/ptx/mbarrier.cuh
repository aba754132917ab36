// SPDX-License-Identifier: Apache-2.0
// Transaction barriers in shared memory (PTX ISA, "Parallel Synchronization and Communication Instructions:
// mbarrier").
//
// A barrier alternates between phases 0 and 1. A phase ends once its pending arrivals and its pending
// transaction bytes are both zero. wait(bar, parity) returns when the phase of that parity has ended, so a
// freshly initialised barrier passes wait(bar, 1) at once: that is how a pipeline's "empty" side starts.
#pragma once

#include <cstdint>

namespace flashattn::ptx {

// 32-bit address in the shared window, which every shared-memory instruction below takes.
__device__ inline uint32_t smem_address(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ inline void mbarrier_init(uint64_t *bar, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_address(bar)), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the copy engine (mbarrier.init is a generic-proxy write).
__device__ inline void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void mbarrier_arrive(uint32_t bar) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ inline void mbarrier_arrive(uint64_t *bar) {
  mbarrier_arrive(smem_address(bar));
}

// One arrival that also announces `bytes` of bulk copies still to land.
__device__ inline void mbarrier_arrive_expect(uint64_t *bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(smem_address(bar)),
               "r"(bytes)
               : "memory");
}

// Has the phase of that parity ended? Answers at once.
__device__ inline uint32_t mbarrier_test(uint32_t bar, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(done)
      : "r"(bar), "r"(parity)
      : "memory");
  return done;
}

// The same, but a "no" may take its time: the hardware suspends the thread for a while first.
__device__ inline uint32_t mbarrier_try_wait(uint32_t bar, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(done)
      : "r"(bar), "r"(parity)
      : "memory");
  return done;
}

__device__ inline void mbarrier_wait(uint32_t bar, uint32_t parity) {
  while (!mbarrier_try_wait(bar, parity)) {
  }
}
__device__ inline void mbarrier_wait(uint64_t *bar, uint32_t parity) {
  mbarrier_wait(smem_address(bar), parity);
}

// The same for a warp with nothing else to do: with a time limit the hardware puts the thread to sleep and
// wakes it when the barrier moves. Without one it tests in a tight loop and takes issue slots from the warps
// that compute on the same quarter of the SM: 8 % of all instructions, a third of that quarter's. (nanosleep
// does not help: it returns at once while other warps run.)
__device__ inline void mbarrier_wait_asleep(uint64_t *bar, uint32_t parity) {
  constexpr uint32_t kLimit = 10000000;  // ns
  uint32_t done;
  do {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2, %3;\n"
        "selp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(done)
        : "r"(smem_address(bar)), "r"(parity), "r"(kLimit)
        : "memory");
  } while (!done);
}

}  // namespace flashattn::ptx
