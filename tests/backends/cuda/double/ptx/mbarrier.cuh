// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device.h"

namespace flashattn::ptx {

inline uint32_t smem_address(const void *p) {
  return cuda_double::shared_address(p);
}
inline void mbarrier_init(uint64_t *bar, uint32_t arrivals) {
  cuda_double::mbarrier_init(smem_address(bar), arrivals);
}
inline void mbarrier_init_fence() {}
inline void mbarrier_arrive(uint32_t bar) {
  cuda_double::mbarrier_arrive(bar);
}
inline void mbarrier_arrive(uint64_t *bar) {
  mbarrier_arrive(smem_address(bar));
}
inline void mbarrier_arrive_expect(uint64_t *bar, uint32_t bytes) {
  cuda_double::mbarrier_expect(smem_address(bar), bytes);
  mbarrier_arrive(bar);
}
inline uint32_t mbarrier_test(uint32_t bar, uint32_t parity) {
  return cuda_double::mbarrier_done(bar, parity) ? 1 : 0;
}
inline void mbarrier_wait(uint32_t bar, uint32_t parity) {
  cuda_double::mbarrier_wait(bar, parity);
}
inline void mbarrier_wait(uint64_t *bar, uint32_t parity) {
  mbarrier_wait(smem_address(bar), parity);
}
inline void mbarrier_wait_asleep(uint64_t *bar, uint32_t parity) {
  mbarrier_wait(bar, parity);
}

}  // namespace flashattn::ptx
