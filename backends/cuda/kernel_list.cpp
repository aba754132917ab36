// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernel_list.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "backends/cuda/hopper.h"
#include "backends/cuda/images.h"
#include "backends/cuda/kernels/sm80/shapes.h"
#include "backends/gpu/splits.h"

namespace flashattn::cuda {
namespace {

constexpr int32_t kGenericHeadDim = 576;
constexpr int32_t kGenericRows = 16;  // as generic/fwd_generic.cu
constexpr int32_t kGenericKeys = 32;
constexpr int32_t kGenericThreads = 128;

template <int kDim>
constexpr KernelEntry sm80(const char *name, const unsigned char *image, int32_t dtype) {
  return {name, image, "fwd_plain", "fwd_modified", ShapeOf<kDim>::kTile, ShapeOf<kDim>::kResident,
          16,   dtype, kDim,        Family::kAmpere};
}

constexpr KernelEntry sm90(const char *name, const unsigned char *image, int32_t dtype, int32_t dim) {
  const sm90::Geometry g = sm90::geometry_of(dim);
  return {name, image, name,  name, {g.block_m, g.block_n, g.threads, g.shared_bytes},
          1,    16,    dtype, dim,  Family::kHopper};
}

constexpr KernelEntry kKernels[] = {
    sm90("fwd_sm90_f16_d64", embedded_image_sm90_f16_d64, FLASHATTN_DTYPE_F16, 64),
    sm90("fwd_sm90_f16_d128", embedded_image_sm90_f16_d128, FLASHATTN_DTYPE_F16, 128),
    sm90("fwd_sm90_f16_d256", embedded_image_sm90_f16_d256, FLASHATTN_DTYPE_F16, 256),
    sm90("fwd_sm90_bf16_d64", embedded_image_sm90_bf16_d64, FLASHATTN_DTYPE_BF16, 64),
    sm90("fwd_sm90_bf16_d128", embedded_image_sm90_bf16_d128, FLASHATTN_DTYPE_BF16, 128),
    sm90("fwd_sm90_bf16_d256", embedded_image_sm90_bf16_d256, FLASHATTN_DTYPE_BF16, 256),
    sm80<64>("fwd_sm80_f16_d64", embedded_image_sm80_f16_d64, FLASHATTN_DTYPE_F16),
    sm80<128>("fwd_sm80_f16_d128", embedded_image_sm80_f16_d128, FLASHATTN_DTYPE_F16),
    sm80<256>("fwd_sm80_f16_d256", embedded_image_sm80_f16_d256, FLASHATTN_DTYPE_F16),
    sm80<64>("fwd_sm80_bf16_d64", embedded_image_sm80_bf16_d64, FLASHATTN_DTYPE_BF16),
    sm80<128>("fwd_sm80_bf16_d128", embedded_image_sm80_bf16_d128, FLASHATTN_DTYPE_BF16),
    sm80<256>("fwd_sm80_bf16_d256", embedded_image_sm80_bf16_d256, FLASHATTN_DTYPE_BF16),
    {"fwd_cuda_generic",
     embedded_image_generic,
     "fwd_cuda_generic",
     "fwd_cuda_generic",
     {kGenericRows, kGenericKeys, kGenericThreads, 0},
     3,
     0,
     0,
     kGenericHeadDim,
     Family::kGeneric},
};

const char *dtype_name(int32_t dtype) {
  if (dtype == FLASHATTN_DTYPE_F32) return "f32";
  return dtype == FLASHATTN_DTYPE_F16 ? "f16" : "bf16";
}

}  // namespace

int32_t kernel_count() {
  return static_cast<int32_t>(std::size(kKernels));
}
const KernelEntry &kernel_at(int32_t index) {
  return kKernels[index];
}
const KernelEntry &generic_kernel() {
  return kKernels[std::size(kKernels) - 1];
}

void refuse(const KernelEntry &kernel, const flashattn_problem_t &problem, const DeviceTraits &device,
            char *reason, size_t size) {
  reason[0] = '\0';
  const int64_t group = problem.num_heads_q / problem.num_heads_kv;
  if (kernel.dtype != 0 && problem.dtype_q != kernel.dtype) {
    std::snprintf(reason, size, "dtype_q is %s; it takes %s", dtype_name(problem.dtype_q),
                  dtype_name(kernel.dtype));
  } else if (kernel.dtype != 0 && problem.dtype_kv != kernel.dtype) {
    std::snprintf(reason, size, "dtype_kv is %s; it takes %s", dtype_name(problem.dtype_kv),
                  dtype_name(kernel.dtype));
  } else if (kernel.family == Family::kHopper) {
    refuse_hopper(kernel, problem, device, reason, size);
  } else if (problem.head_dim > kernel.head_dim) {
    std::snprintf(reason, size, "head_dim is %d; it takes at most %d", problem.head_dim, kernel.head_dim);
  } else if (problem.head_dim_v > kernel.head_dim) {
    std::snprintf(reason, size, "head_dim_v is %d; it takes at most %d", problem.head_dim_v, kernel.head_dim);
  } else if (kernel.generic() && (problem.flags & FLASHATTN_FLAG_REQUIRE_FAST) != 0) {
    std::snprintf(reason, size, "flags has REQUIRE_FAST; it is the generic kernel");
  } else if (group * problem.max_seqlen_q > INT32_MAX) {
    std::snprintf(
        reason, size,
        "max_seqlen_q is %d; with %lld query heads per KV head a sequence has more than 2^31 - 1 rows",
        problem.max_seqlen_q, static_cast<long long>(group));
  } else if (kernel.tile.shared_bytes > device.shared_limit) {
    std::snprintf(reason, size, "head_dim %d needs %d bytes of shared memory per block; this device has %d",
                  problem.head_dim, kernel.tile.shared_bytes, device.shared_limit);
  } else if (kernel.family == Family::kAmpere) {
    const int64_t tiles = gpu::tiles_of(problem.max_seqlen_q, group, kernel.tile.rows);
    const int64_t splits = std::max(problem.num_splits, 1);
    if (int64_t{problem.max_batch} * problem.num_heads_kv * tiles > INT32_MAX / splits) {
      std::snprintf(reason, size, "max_batch is %d; more than 2^31 - 1 blocks", problem.max_batch);
    }
  }
}

void yield(const KernelEntry &kernel, const flashattn_problem_t &problem, const DeviceTraits &device,
           char *reason, size_t size) {
  reason[0] = '\0';
  if (kernel.family == Family::kHopper) yield_hopper(kernel, problem, device, reason, size);
}

}  // namespace flashattn::cuda
