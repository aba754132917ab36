// SPDX-License-Identifier: Apache-2.0
// The SIMD kernels' functions, one namespace per target. Call them only where the target's instructions
// exist.
#pragma once

#include "backends/cpu/kernel.h"

namespace flashattn::cpu {

namespace avx2 {
Blocking blocking(const Shape &shape, int64_t max_rows);
void tile(const Tile &tile, const Blocking &blocking, void *scratch, const State &state);
void store_row(int32_t dtype, const float *source, int32_t n, void *out);
}  // namespace avx2

namespace avx512 {
Blocking blocking(const Shape &shape, int64_t max_rows);
void tile(const Tile &tile, const Blocking &blocking, void *scratch, const State &state);
void store_row(int32_t dtype, const float *source, int32_t n, void *out);
}  // namespace avx512

namespace neon {
Blocking blocking(const Shape &shape, int64_t max_rows);
void tile(const Tile &tile, const Blocking &blocking, void *scratch, const State &state);
void store_row(int32_t dtype, const float *source, int32_t n, void *out);
}  // namespace neon

}  // namespace flashattn::cpu
