// SPDX-License-Identifier: Apache-2.0
// Vectors of f32 for one instruction set. Everything under simd/ is included by one file per target, each
// compiled with its own flags (HWY_COMPILE_ONLY_STATIC), so that Highway's namespace tells the copies apart
// and libhwy is not needed.
#pragma once

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "flashattn.h"

HWY_BEFORE_NAMESPACE();
namespace flashattn::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using Vector = hn::Vec<F32>;

inline constexpr int32_t kLanes = hn::MaxLanes(F32());

// Floats of an element of a K, V or Q row: kDtype is FLASHATTN_DTYPE_F32, _F16 or _BF16.
template <int32_t kDtype>
inline constexpr int32_t kElementSize = kDtype == FLASHATTN_DTYPE_F32 ? 4 : 2;

// kLanes elements of a row from column c on, any alignment.
template <int32_t kDtype>
HWY_INLINE Vector load(const char *row, int64_t c) {
  const F32 f32;
  const char *at = row + c * kElementSize<kDtype>;
  if constexpr (kDtype == FLASHATTN_DTYPE_F16) {
    return hn::PromoteTo(
        f32, hn::LoadU(hn::Rebind<hwy::float16_t, F32>(), reinterpret_cast<const hwy::float16_t *>(at)));
  } else if constexpr (kDtype == FLASHATTN_DTYPE_BF16) {
    const auto half = hn::LoadU(hn::Rebind<uint16_t, F32>(), reinterpret_cast<const uint16_t *>(at));
    return hn::BitCast(f32, hn::ShiftLeft<16>(hn::PromoteTo(U32(), half)));
  } else {
    return hn::LoadU(f32, reinterpret_cast<const float *>(at));
  }
}

// The first n < kLanes of them, zero in the other lanes; reads nothing behind.
template <int32_t kDtype>
HWY_INLINE Vector load_part(const char *row, int64_t c, int32_t n) {
  alignas(64) char copy[sizeof(float) * kLanes] = {};
  std::memcpy(copy, row + c * kElementSize<kDtype>, static_cast<size_t>(n) * kElementSize<kDtype>);
  return load<kDtype>(copy, 0);
}

// n elements of a row as f32; out has room for whole vectors and gets zeros behind.
template <int32_t kDtype>
HWY_INLINE void load_row(const char *row, int32_t n, float *out) {
  int32_t c = 0;
  for (; c + kLanes <= n; c += kLanes) hn::StoreU(load<kDtype>(row, c), F32(), out + c);
  if (c < n) hn::StoreU(load_part<kDtype>(row, c, n - c), F32(), out + c);
}

// The sum of the 128-bit blocks.
template <class D>
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> sum_blocks(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(d) > 4) {
    const hn::Half<D> half;
    return sum_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    return v;
  }
}

// The sum of each vector's lanes.
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> sum_lanes(Vector a, Vector b, Vector c, Vector d) {
  const F32 f32;
  const hn::RepartitionToWide<F32> f64;
  const auto add_interleaved = [&](Vector x, Vector y) HWY_ATTR {
    return hn::Add(hn::InterleaveLower(f32, x, y), hn::InterleaveUpper(f32, x, y));
  };
  // Within each 128-bit block: (a0 + a2, b0 + b2, a1 + a3, b1 + b3), then (a, b, c, d).
  const auto ab = hn::BitCast(f64, add_interleaved(a, b));
  const auto cd = hn::BitCast(f64, add_interleaved(c, d));
  const Vector blocks = hn::Add(hn::BitCast(f32, hn::InterleaveLower(f64, ab, cd)),
                                hn::BitCast(f32, hn::InterleaveUpper(f64, ab, cd)));
  return sum_blocks(f32, blocks);
}

// Calls f with kDtype as a type, so that it can be a template argument.
template <int32_t kValue>
struct Constant {
  static constexpr int32_t value = kValue;
};
template <typename F>
HWY_INLINE void with_dtype(int32_t dtype, const F &f) {
  switch (dtype) {
    case FLASHATTN_DTYPE_F16:
      f(Constant<FLASHATTN_DTYPE_F16>());
      return;
    case FLASHATTN_DTYPE_BF16:
      f(Constant<FLASHATTN_DTYPE_BF16>());
      return;
    default:
      f(Constant<FLASHATTN_DTYPE_F32>());
  }
}
// Likewise a count in 1..kMost.
template <int32_t kMost, typename F>
HWY_INLINE void with_count(int32_t count, const F &f) {
  if constexpr (kMost > 1) {
    if (count < kMost) {
      with_count<kMost - 1>(count, f);
      return;
    }
  }
  f(Constant<kMost>());
}

}  // namespace flashattn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
