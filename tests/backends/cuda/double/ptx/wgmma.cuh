// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device.h"

namespace flashattn::ptx {

template <uint32_t kLeading, uint32_t kStride>
struct Matrix {
  uint32_t low;

  explicit Matrix(uint32_t smem) : low((smem >> 4) + (kLeading >> 4 << 16)) {}
  Matrix at(uint32_t bytes) const {
    Matrix moved = *this;
    moved.low += bytes >> 4;
    return moved;
  }
  uint64_t descriptor() const { return low | static_cast<uint64_t>(kStride >> 4 | 1U << 30) << 32; }
};

inline void wgmma_fence() {}
inline void wgmma_commit() {
  cuda_double::product_commit();
}
template <int kPending>
inline void wgmma_wait() {
  cuda_double::product_wait(kPending);
}
template <int kCount>
inline void wgmma_pin(float (&)[kCount]) {}
template <int kCount>
inline void wgmma_pin(uint32_t (&)[kCount]) {}

template <typename Element, int kN>
struct Wgmma {
  static constexpr bool kHalf = std::is_same_v<Element, __half>;
  static void ss_first(float *d, uint64_t a, uint64_t b) {
    cuda_double::product(kHalf, kN, true, d, nullptr, a, b);
  }
  static void ss(float *d, uint64_t a, uint64_t b) {
    cuda_double::product(kHalf, kN, false, d, nullptr, a, b);
  }
  static void rs(float *d, const uint32_t *a, uint64_t b) {
    cuda_double::product(kHalf, kN, false, d, a, 0, b);
  }
};

}  // namespace flashattn::ptx
