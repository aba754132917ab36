// SPDX-License-Identifier: Apache-2.0
// The shape of the work a block of a kernel does.
#pragma once

#include <cstdint>

namespace flashattn::gpu {

struct TileShape {
  int32_t rows;          // packed query rows
  int32_t keys;          // keys per step
  int32_t threads;       // of a block
  int32_t shared_bytes;  // of a block
};

}  // namespace flashattn::gpu
