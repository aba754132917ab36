// SPDX-License-Identifier: Apache-2.0
// Pieces of the SIMD kernels behind plain functions, one namespace per target.
#pragma once

#include <cstdint>
#include <vector>

namespace flashattn::cpu::test {

struct SimdProbe {
  const char *name;
  // Elementwise, any n.
  void (*exp_negative)(const float *x, int32_t n, float *out);
  void (*tanh)(const float *x, int32_t n, float *out);
  // As load_row and store_row of convert.h; load's out has room for 16 more floats, store's source too.
  void (*load_row)(int32_t dtype, const void *source, int32_t n, float *out);
  void (*store_row)(int32_t dtype, const float *source, int32_t n, void *out);
};

extern const SimdProbe kProbeAvx2;
extern const SimdProbe kProbeAvx512;
extern const SimdProbe kProbeNeon;

// Those that this build has and this machine can run; at least one on x86-64 with AVX2 and on aarch64.
std::vector<const SimdProbe *> simd_probes();

}  // namespace flashattn::cpu::test
