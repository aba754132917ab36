// SPDX-License-Identifier: Apache-2.0
// Enqueuing a kernel whose one parameter is a plain struct.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cuda/driver.h"

namespace flashattn::cuda {

// Grids are one-dimensional; kernels that may be given more than this many blocks' work loop.
inline constexpr int64_t kMaxGrid = INT32_MAX;

template <typename Args>
Status launch(const CudaDriver &driver, CuFunction function, int64_t blocks, int32_t threads,
              int32_t shared_bytes, CuStream stream, const Args &args) {
  void *parameters[] = {const_cast<Args *>(&args)};
  const auto grid = static_cast<unsigned>(std::min(blocks, kMaxGrid));
  return check(driver,
               driver.cuLaunchKernel(function, grid, 1, 1, static_cast<unsigned>(threads), 1, 1,
                                     static_cast<unsigned>(shared_bytes), stream, parameters, nullptr),
               "cuLaunchKernel");
}

}  // namespace flashattn::cuda
