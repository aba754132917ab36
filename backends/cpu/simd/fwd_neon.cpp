// SPDX-License-Identifier: Apache-2.0
// fwd_cpu_neon: CMakeLists.txt gives this file the flags of its target.
#define HWY_COMPILE_ONLY_STATIC
#include "backends/cpu/simd/fwd_simd.h"
#include "backends/cpu/simd/targets.h"

static_assert(HWY_STATIC_TARGET == HWY_NEON, "compiled with the flags of another target");

HWY_BEFORE_NAMESPACE();
namespace flashattn::cpu::neon {

Blocking blocking(const Shape &shape, int64_t max_rows) {
  return HWY_NAMESPACE::choose_blocking(shape, max_rows);
}

void tile(const Tile &tile, const Blocking &blocking, void *scratch, const State &state) {
  HWY_NAMESPACE::run_tile(tile, blocking, scratch, state);
}

void store_row(int32_t dtype, const float *source, int32_t n, void *out) {
  HWY_NAMESPACE::write_row(dtype, source, n, out);
}

}  // namespace flashattn::cpu::neon
HWY_AFTER_NAMESPACE();
