// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "flashattn.h"

namespace flashattn {

// Bytes of one element of a FLASHATTN_DTYPE_*, 0 for other values.
constexpr int64_t dtype_size(int32_t dtype) {
  switch (dtype) {
    case FLASHATTN_DTYPE_F32:
      return 4;
    case FLASHATTN_DTYPE_F16:
    case FLASHATTN_DTYPE_BF16:
      return 2;
    case FLASHATTN_DTYPE_FP8_E4M3:
    case FLASHATTN_DTYPE_I8:
    case FLASHATTN_DTYPE_U8:
      return 1;
    default:
      return 0;
  }
}

// The types a kernel may compute with: f32, f16, bf16.
constexpr bool is_float_dtype(int32_t dtype) {
  return dtype == FLASHATTN_DTYPE_F32 || dtype == FLASHATTN_DTYPE_F16 || dtype == FLASHATTN_DTYPE_BF16;
}

}  // namespace flashattn
