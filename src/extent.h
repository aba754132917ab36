// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes and strides that answers whether it stayed inside int64.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace flashattn {

// The product of non-negative factors, or false when it exceeds limit.
inline bool product_within(std::initializer_list<int64_t> factors, int64_t limit, int64_t *product) {
  int64_t result = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(result, factor, &result) || result > limit) return false;
  }
  *product = result;
  return true;
}

// Adds (extent - 1) * stride to *offset, the largest offset along one dimension; extent 0 adds nothing. False
// when it leaves int64.
inline bool add_dimension(int64_t extent, int64_t stride, int64_t *offset) {
  int64_t step = 0;
  if (extent <= 1) return true;
  return !__builtin_mul_overflow(extent - 1, stride, &step) && !__builtin_add_overflow(*offset, step, offset);
}

}  // namespace flashattn
