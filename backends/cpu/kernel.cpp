// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernel.h"

#include <cstdio>
#include <iterator>

#include "backends/cpu/fwd_scalar.h"
#include "backends/cpu/simd/targets.h"
#include "src/dtype.h"

namespace flashattn::cpu {
namespace {

#if defined(__x86_64__)

const char *missing_avx512(const CpuFeatures &features) {
  return features.avx512 ? nullptr : "needs avx512f, bw, cd, dq and vl";
}
constexpr Kernel kFwdCpuAvx512 = {"fwd_cpu_avx512", missing_avx512, false,
                                  avx512::blocking, avx512::tile,   avx512::store_row};

const char *missing_avx2(const CpuFeatures &features) {
  return features.avx2 ? nullptr : "needs avx2, fma, f16c, bmi, bmi2 and lzcnt";
}
constexpr Kernel kFwdCpuAvx2 = {"fwd_cpu_avx2", missing_avx2, false,
                                avx2::blocking, avx2::tile,   avx2::store_row};

const Kernel *const kKernels[] = {&kFwdCpuAvx512, &kFwdCpuAvx2, &kFwdCpuScalar};

#elif defined(__aarch64__)

const char *missing_neon(const CpuFeatures &features) {
  return features.neon ? nullptr : "needs neon";
}
constexpr Kernel kFwdCpuNeon = {"fwd_cpu_neon", missing_neon, false,
                                neon::blocking, neon::tile,   neon::store_row};

const Kernel *const kKernels[] = {&kFwdCpuNeon, &kFwdCpuScalar};

#else

const Kernel *const kKernels[] = {&kFwdCpuScalar};

#endif

}  // namespace

int32_t kernel_count() {
  return static_cast<int32_t>(std::size(kKernels));
}

const Kernel &kernel_at(int32_t index) {
  return *kKernels[index];
}

void refuse_shape(const Shape &shape, char *reason, size_t size) {
  reason[0] = '\0';
  const struct {
    const char *field;
    int32_t value;
  } dtypes[] = {{"dtype_q", shape.dtype_q}, {"dtype_kv", shape.dtype_kv}, {"dtype_o", shape.dtype_o}};
  for (const auto &dtype : dtypes) {
    if (is_float_dtype(dtype.value)) continue;
    std::snprintf(reason, size, "%s is %s; CPU kernels take f32, f16 and bf16", dtype.field,
                  dtype_name(dtype.value));
    return;
  }
  if (shape.dtype_bias != 0 && !is_float_dtype(shape.dtype_bias) && shape.dtype_bias != FLASHATTN_DTYPE_U8) {
    std::snprintf(reason, size, "dtype_bias is %s; CPU kernels take f32, f16, bf16 and u8",
                  dtype_name(shape.dtype_bias));
    return;
  }
  if (shape.dim > kMaxHeadDim) {
    std::snprintf(reason, size, "head_dim is %d; the widest kernel takes %d", shape.dim, kMaxHeadDim);
  } else if (shape.dim_v > kMaxHeadDim) {
    std::snprintf(reason, size, "head_dim_v is %d; the widest kernel takes %d", shape.dim_v, kMaxHeadDim);
  }
}

}  // namespace flashattn::cpu
