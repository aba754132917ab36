// SPDX-License-Identifier: Apache-2.0
// Elements of any type, to and from f32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "flashattn.h"

namespace flashattn::cuda {

__device__ inline float minus_infinity() {
  return __int_as_float(0xff800000);
}

__device__ inline float load_element(const void *data, int64_t index, int32_t dtype) {
  switch (dtype) {
    case FLASHATTN_DTYPE_F16:
      return __half2float(static_cast<const __half *>(data)[index]);
    case FLASHATTN_DTYPE_BF16:
      return __bfloat162float(static_cast<const __nv_bfloat16 *>(data)[index]);
    default:
      return static_cast<const float *>(data)[index];
  }
}

__device__ inline void store_element(void *data, int64_t index, int32_t dtype, float value) {
  switch (dtype) {
    case FLASHATTN_DTYPE_F16:
      static_cast<__half *>(data)[index] = __float2half_rn(value);
      break;
    case FLASHATTN_DTYPE_BF16:
      static_cast<__nv_bfloat16 *>(data)[index] = __float2bfloat16_rn(value);
      break;
    default:
      static_cast<float *>(data)[index] = value;
  }
}

}  // namespace flashattn::cuda
