// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device.h"

namespace flashattn::ptx {

// ex2.approx.ftz: denormal results and arguments are zero.
inline float exp2_approx(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126F ? 0.0F : y;
}
template <typename Element>
inline uint32_t pack(float low, float high) {
  if (std::is_same_v<Element, __half>)
    return cuda_double::float_to_half(low) | static_cast<uint32_t>(cuda_double::float_to_half(high)) << 16;
  return cuda_double::float_to_bfloat(low) | static_cast<uint32_t>(cuda_double::float_to_bfloat(high)) << 16;
}
// Matrix i takes its eight row addresses from lanes 8 i and on; lane l holds columns 2 (l % 4) and on of row
// l / 4 of each.
inline void store_matrix_x4(uint32_t smem, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  const uint64_t *rows = exchange_value(kStoreMatrix, smem);
  const unsigned lane = threadIdx.x % 32;
  const uint32_t words[] = {a, b, c, d};
  for (unsigned i = 0; i < 4; ++i) {
    const auto at = static_cast<uint32_t>(rows[8 * i + lane / 4]) + lane % 4 * 4;
    std::memcpy(cuda_double::shared_memory() + (at - cuda_double::kSharedBase), &words[i], 4);
  }
}

}  // namespace flashattn::ptx
