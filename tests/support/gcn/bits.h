// SPDX-License-Identifier: Apache-2.0
// Bit-field and byte operations that scalar and vector instructions share.
#pragma once

#include <cstdint>

namespace flashattn::gcn {

// BFE: `width` bits of value from `offset`; offset and width already masked to 5 bits (vector) or width up to
// 127 (scalar).
inline uint32_t extract_unsigned(uint32_t value, uint32_t offset, uint32_t width) {
  if (width == 0) return 0;
  const uint32_t shifted = value >> offset;
  return width >= 32 ? shifted : shifted & ((1U << width) - 1);
}

inline uint32_t extract_signed(uint32_t value, uint32_t offset, uint32_t width) {
  if (width == 0) return 0;
  if (offset + width >= 32) return static_cast<uint32_t>(static_cast<int32_t>(value) >> offset);
  const uint32_t top = 32 - width;
  return static_cast<uint32_t>(static_cast<int32_t>(value >> offset << top) >> top);
}

inline uint32_t reverse_bits(uint32_t value) {
  uint32_t reversed = 0;
  for (int k = 0; k < 32; ++k) reversed |= (value >> k & 1) << (31 - k);
  return reversed;
}

inline uint32_t leading_zeros(uint32_t value) {
  return value == 0 ? ~0U : static_cast<uint32_t>(__builtin_clz(value));
}

inline uint32_t trailing_zeros(uint32_t value) {
  return value == 0 ? ~0U : static_cast<uint32_t>(__builtin_ctz(value));
}

// V_PERM_B32: each selector byte picks a byte of {a, b}, a sign byte, 0x00 or 0xff.
inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t data = static_cast<uint64_t>(a) << 32 | b;
  uint32_t result = 0;
  for (int k = 0; k < 4; ++k) {
    const uint32_t pick = selector >> (8 * k) & 255;
    uint32_t byte = 0;
    if (pick >= 13) {
      byte = 255;
    } else if (pick >= 8 && pick < 12) {
      byte = (data >> (16 * (pick - 8) + 15) & 1) != 0 ? 255 : 0;
    } else if (pick < 8) {
      byte = data >> (8 * pick) & 255;
    }
    result |= byte << (8 * k);
  }
  return result;
}

}  // namespace flashattn::gcn
