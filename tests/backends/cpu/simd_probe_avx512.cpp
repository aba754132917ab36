// SPDX-License-Identifier: Apache-2.0
#define HWY_COMPILE_ONLY_STATIC
#include "tests/backends/cpu/simd_probe.h"
#include "tests/backends/cpu/simd_probe_body.h"

HWY_BEFORE_NAMESPACE();
namespace flashattn::cpu::test {
namespace {

void exp_row(const float *x, int32_t n, float *out) {
  HWY_NAMESPACE::probe_exp(x, n, out);
}
void tanh_row(const float *x, int32_t n, float *out) {
  HWY_NAMESPACE::probe_tanh(x, n, out);
}
void load(int32_t dtype, const void *source, int32_t n, float *out) {
  HWY_NAMESPACE::probe_load(dtype, source, n, out);
}
void store(int32_t dtype, const float *source, int32_t n, void *out) {
  HWY_NAMESPACE::write_row(dtype, source, n, out);
}

}  // namespace

const SimdProbe kProbeAvx512 = {"avx512", exp_row, tanh_row, load, store};

}  // namespace flashattn::cpu::test
HWY_AFTER_NAMESPACE();
