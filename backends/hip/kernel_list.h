// SPDX-License-Identifier: Apache-2.0
// The forward kernels, from specific to generic. Whether one takes a problem, what it needs and how it is launched all
// answer from its one entry.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/gpu/tile.h"
#include "flashattn.h"

namespace flashattn::hip {

struct KernelEntry {
  const char *name;
  const unsigned char *image;
  const char *plain;     // entry point
  const char *modified;  // entry point for softcap, ALiBi, bias and negative scales; may be the same
  gpu::TileShape tile;   // LDS is part of the code: shared_bytes is not asked for at launch
  int32_t resident;      // blocks per compute unit
  int32_t alignment;     // of bases and strides, in bytes; 0 = the element's
  int32_t dtype;         // of Q, K and V; 0 = any
  int32_t head_dim;      // of Q, K and V, at most
  bool generic;
};

int32_t kernel_count();
const KernelEntry &kernel_at(int32_t index);
const KernelEntry &generic_kernel();

// Empty when the kernel takes the problem, else why not: field, value, rule.
void refuse(const KernelEntry &kernel, const flashattn_problem_t &problem, char *reason, size_t size);

// The most blocks of a launch: work items of a grid's dimension are counted in 32 bits.
inline int64_t most_blocks(const gpu::TileShape &tile) {
  return UINT32_MAX / tile.threads;
}

}  // namespace flashattn::hip
