// SPDX-License-Identifier: Apache-2.0
// Vectors of f32 for one instruction set. Everything under simd/ is included by one file per target, each
// compiled with its own flags (HWY_COMPILE_ONLY_STATIC), so that Highway's namespace tells the copies apart
// and libhwy is not needed.
#pragma once

#include <hwy/cache_control.h>
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

// Rows of a tensor that are needed soon: fetched into the cache one at a time, beside other work.
struct Ahead {
  const char *const *rows;
  int32_t n;
  int32_t bytes;  // of a row

  HWY_INLINE void fetch(int32_t row) const {
    if (row >= n) return;
    for (int32_t c = 0; c < bytes; c += 64) hwy::Prefetch(rows[row] + c);
  }
};

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
