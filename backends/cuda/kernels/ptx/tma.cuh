// SPDX-License-Identifier: Apache-2.0
// Tiled bulk copies (PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor").
// A tensor map of rank 4 is (column, row, head, batch). Elements outside its bounds read as zero and are
// never written, which is what keeps rows past a sequence's end out of every result.
#pragma once

#include <cstdint>

#include "mbarrier.cuh"

namespace flashattn::ptx {

__device__ inline void tma_prefetch_map(const void *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Global to shared; `bar` receives the box's full byte count, rows out of bounds included.
__device__ inline void tma_load(void *smem, const void *map, uint64_t *bar, int column, int row, int head,
                                int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(smem_address(smem)),
      "l"(map), "r"(smem_address(bar)), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

// Shared to global. The source must have been fenced with fence_async_proxy by its writers.
__device__ inline void tma_store(const void *map, const void *smem, int column, int row, int head,
                                 int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
      "r"(smem_address(smem)), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

__device__ inline void tma_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Returns when all but the newest kPending groups of this thread have read their source: it may then be
// overwritten.
template <int kPending>
__device__ inline void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

}  // namespace flashattn::ptx
