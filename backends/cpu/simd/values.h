// SPDX-License-Identifier: Apache-2.0
// O = keep O + P^T V for one panel of rows and one block of keys.
#pragma once

#include "backends/cpu/simd/blocking.h"

HWY_BEFORE_NAMESPACE();
namespace flashattn::cpu::HWY_NAMESPACE {

// kRows rows x kVectors vectors of columns, the sum over the block formed apart from o: one rounding per
// block instead of one per key. value(j, v) is vector v of key j's columns.
template <int32_t kRows, int32_t kVectors, typename Value>
HWY_INLINE void value_block(const float *HWY_RESTRICT p, int32_t stride_p, int32_t n, const Value &value,
                            const float *keep, float *HWY_RESTRICT o, int64_t stride_o) {
  const F32 f32;
  Vector acc[kRows][kVectors];
  for (auto &row : acc) {
    for (Vector &a : row) a = hn::Zero(f32);
  }
  for (int32_t j = 0; j < n; ++j) {
    Vector columns[kVectors];
    for (int32_t v = 0; v < kVectors; ++v) columns[v] = value(j, v);
    for (int32_t r = 0; r < kRows; ++r) {
      const Vector weight = hn::Set(f32, p[r]);
      for (int32_t v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(weight, columns[v], acc[r][v]);
    }
    p += stride_p;
  }
  for (int32_t r = 0; r < kRows; ++r) {
    const Vector factor = hn::Set(f32, keep[r]);
    for (int32_t v = 0; v < kVectors; ++v) {
      float *at = o + r * stride_o + v * kLanes;
      hn::Store(hn::MulAdd(hn::Load(f32, at), factor, acc[r][v]), f32, at);
    }
  }
}

// rows rows of a panel; v is packed as blocking.h says.
HWY_NOINLINE inline void value_panel(const float *p, int32_t rows, int32_t n, const float *v, int32_t dim_v,
                                     const float *keep, float *o, int64_t stride_o) {
  for (int32_t c = 0; c < dim_v; c += kValuePanel) {
    const int32_t width = std::min(kValuePanel, round_up(dim_v - c, kLanes));
    const float *packed = v + static_cast<int64_t>(c) * n;
    with_count<kValueVectors>(width / kLanes, [&](auto vectors) HWY_ATTR {
      constexpr int32_t kVectors = decltype(vectors)::value;
      const auto value = [packed](int32_t j, int32_t w) HWY_ATTR {
        return hn::Load(F32(), packed + static_cast<int64_t>(j) * (kVectors * kLanes) + w * kLanes);
      };
      int32_t r = 0;
      for (; r + kValueRows <= rows; r += kValueRows) {
        value_block<kValueRows, kVectors>(p + r, kPanel, n, value, keep + r, o + r * stride_o + c, stride_o);
      }
      for (; r + 2 <= rows; r += 2) {
        value_block<2, kVectors>(p + r, kPanel, n, value, keep + r, o + r * stride_o + c, stride_o);
      }
      if (r < rows)
        value_block<1, kVectors>(p + r, kPanel, n, value, keep + r, o + r * stride_o + c, stride_o);
    });
  }
}

// kRows <= kDotRows rows of one head with V straight from its tensor.
template <int32_t kDtype, int32_t kRows>
HWY_NOINLINE void value_direct(const float *p, int32_t stride_p, const RowsOfHeads &v, int32_t head,
                               int32_t dim_v, const float *keep, float *o, int64_t stride_o) {
  constexpr int32_t kVectors = kRows <= 4 ? 8 / kRows : kRows <= 6 ? 2 : 1;
  const char *const *rows = v.rows;
  int64_t at = head * v.head_stride;  // bytes behind the row
  int32_t c = 0;
  for (; c + kVectors * kLanes <= dim_v; c += kVectors * kLanes) {
    const auto value = [rows, at](int32_t j, int32_t w)
                           HWY_ATTR { return load<kDtype>(rows[j] + at, w * kLanes); };
    value_block<kRows, kVectors>(p, stride_p, v.n, value, keep, o + c, stride_o);
    at += kVectors * kLanes * kElementSize<kDtype>;
  }
  for (; c < dim_v; c += kLanes) {
    const int32_t width = std::min(kLanes, dim_v - c);
    const auto value = [rows, at, width](int32_t j, int32_t) HWY_ATTR {
      return width == kLanes ? load<kDtype>(rows[j] + at, 0) : load_part<kDtype>(rows[j] + at, 0, width);
    };
    value_block<kRows, 1>(p, stride_p, v.n, value, keep, o + c, stride_o);
    at += kLanes * kElementSize<kDtype>;
  }
}

}  // namespace flashattn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
