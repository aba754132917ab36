// SPDX-License-Identifier: Apache-2.0
// What the host has to know of a kernel to launch it. Host and device code include this.
#pragma once

#include <cstdint>

namespace flashattn::sm90 {

struct Geometry {
  int32_t head_dim;
  int32_t block_m;       // query rows of a tile; also the rows of the tensor map box of Q
  int32_t block_n;       // keys of a block; also the rows of the boxes of K and V
  int32_t threads;       // of a block
  int32_t shared_bytes;  // dynamic shared memory of a block
};

// The kernels are named fwd_sm90_<dtype>_d<head_dim>; f16 and bf16 share their geometry.
constexpr Geometry kGeometry[] = {
    {64, 256, 64, 640, 132096},
    {128, 128, 128, 384, 197632},
    {256, 128, 64, 384, 197632},
};

constexpr Geometry geometry_of(int head_dim) {
  for (const Geometry &g : kGeometry) {
    if (g.head_dim == head_dim) return g;
  }
  return {};
}

}  // namespace flashattn::sm90
