// SPDX-License-Identifier: Apache-2.0
#include "backends/hip/kernel_list.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "backends/gpu/splits.h"
#include "backends/hip/images.h"
#include "backends/hip/kernels/gfx942/shapes.h"

namespace flashattn::hip {
namespace {

constexpr int32_t kGenericHeadDim = 576;
constexpr gpu::TileShape kGenericTile = {16, 64, 128, 17352};  // as generic/fwd_generic.hip
constexpr int32_t kDimStep = 8;                                // elements of a 16-byte chunk

template <int kDim>
constexpr KernelEntry gfx942(const char *name, const unsigned char *image, int32_t dtype) {
  return {name, image, "fwd_plain", "fwd_modified", ShapeOf<kDim>::kTile, 1, 16, dtype, kDim, false};
}

constexpr KernelEntry kKernels[] = {
    gfx942<64>("fwd_gfx942_f16_d64", embedded_code_f16_d64, FLASHATTN_DTYPE_F16),
    gfx942<128>("fwd_gfx942_f16_d128", embedded_code_f16_d128, FLASHATTN_DTYPE_F16),
    gfx942<256>("fwd_gfx942_f16_d256", embedded_code_f16_d256, FLASHATTN_DTYPE_F16),
    gfx942<64>("fwd_gfx942_bf16_d64", embedded_code_bf16_d64, FLASHATTN_DTYPE_BF16),
    gfx942<128>("fwd_gfx942_bf16_d128", embedded_code_bf16_d128, FLASHATTN_DTYPE_BF16),
    gfx942<256>("fwd_gfx942_bf16_d256", embedded_code_bf16_d256, FLASHATTN_DTYPE_BF16),
    {"fwd_hip_generic", embedded_code_generic, "fwd_hip_generic", "fwd_hip_generic", kGenericTile, 2, 0, 0,
     kGenericHeadDim, true},
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

void refuse(const KernelEntry &kernel, const flashattn_problem_t &problem, char *reason, size_t size) {
  reason[0] = '\0';
  const int64_t group = problem.num_heads_q / problem.num_heads_kv;
  if (kernel.dtype != 0 && problem.dtype_q != kernel.dtype) {
    std::snprintf(reason, size, "dtype_q is %s; it takes %s", dtype_name(problem.dtype_q),
                  dtype_name(kernel.dtype));
  } else if (kernel.dtype != 0 && problem.dtype_kv != kernel.dtype) {
    std::snprintf(reason, size, "dtype_kv is %s; it takes %s", dtype_name(problem.dtype_kv),
                  dtype_name(kernel.dtype));
  } else if (problem.head_dim > kernel.head_dim) {
    std::snprintf(reason, size, "head_dim is %d; it takes at most %d", problem.head_dim, kernel.head_dim);
  } else if (problem.head_dim_v > kernel.head_dim) {
    std::snprintf(reason, size, "head_dim_v is %d; it takes at most %d", problem.head_dim_v, kernel.head_dim);
  } else if (!kernel.generic && problem.head_dim % kDimStep != 0) {
    std::snprintf(reason, size, "head_dim is %d; it takes multiples of %d", problem.head_dim, kDimStep);
  } else if (!kernel.generic && problem.head_dim_v % kDimStep != 0) {
    std::snprintf(reason, size, "head_dim_v is %d; it takes multiples of %d", problem.head_dim_v, kDimStep);
  } else if (kernel.generic && (problem.flags & FLASHATTN_FLAG_REQUIRE_FAST) != 0) {
    std::snprintf(reason, size, "flags has REQUIRE_FAST; it is the generic kernel");
  } else if (group * problem.max_seqlen_q > INT32_MAX) {
    std::snprintf(
        reason, size,
        "max_seqlen_q is %d; with %lld query heads per KV head a sequence has more than 2^31 - 1 rows",
        problem.max_seqlen_q, static_cast<long long>(group));
  } else if (!kernel.generic) {
    const int64_t tiles = gpu::tiles_of(problem.max_seqlen_q, group, kernel.tile.rows);
    const int64_t most = most_blocks(kernel.tile) / std::max(problem.num_splits, 1);
    if (int64_t{problem.max_batch} * problem.num_heads_kv > most / std::max<int64_t>(tiles, 1)) {
      std::snprintf(reason, size, "max_batch is %d; more than %lld blocks", problem.max_batch,
                    static_cast<long long>(most_blocks(kernel.tile)));
    }
  }
}

}  // namespace flashattn::hip
