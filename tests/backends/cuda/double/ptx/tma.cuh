// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mbarrier.cuh"

namespace flashattn::ptx {

inline void tma_load(void *smem, const void *map, uint64_t *bar, int column, int row, int head, int batch) {
  cuda_double::copy_in(smem_address(smem), map, smem_address(bar), column, row, head, batch);
}
inline void tma_store(const void *map, const void *smem, int column, int row, int head, int batch) {
  cuda_double::copy_out(map, smem_address(smem), column, row, head, batch);
}
inline void tma_store_commit() {}
template <int kPending>
inline void tma_store_wait_read() {
  static_assert(kPending == 0);
  cuda_double::copy_out_wait();
}

}  // namespace flashattn::ptx
