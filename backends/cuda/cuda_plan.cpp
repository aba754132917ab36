// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/cuda_plan.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "backends/cuda/context.h"
#include "backends/cuda/hopper.h"
#include "backends/cuda/images.h"
#include "backends/cuda/launch.h"

namespace flashattn::cuda {
namespace {

constexpr int32_t kCombineThreads = 128;
constexpr int32_t kCombineRows = kCombineThreads / 32;  // of a block, one per warp

}  // namespace

Status ReadyKernel::make(const DeviceRefs &device, const flashattn_problem_t &problem,
                         const KernelEntry &entry, std::optional<ReadyKernel> *ready) {
  ReadyKernel made;
  made.entry_ = &entry;
  if (entry.family == Family::kHopper) {
    made.rule_.max_splits = 1;
    *ready = made;
    return device.modules.function(entry.image, entry.plain, entry.tile.shared_bytes, &(*ready)->forward_);
  }
  made.rule_ =
      gpu::make_split_rule(problem, entry.tile, int64_t{device.traits.multiprocessors} * entry.resident);
  const int64_t row_bytes = (int64_t{problem.head_dim_v} + 1) * static_cast<int64_t>(sizeof(float));
  if (made.rule_.partial_rows > (INT64_MAX / 2) / row_bytes) {
    return fail(FLASHATTN_STATUS_UNSUPPORTED,
                "num_splits is %d; the partial results of max_batch %d and max_seqlen_q %d would not fit any "
                "address space",
                problem.num_splits, problem.max_batch, problem.max_seqlen_q);
  }
  const bool modified = (gpu::describe_call(problem, flashattn_call_t{}).flags & gpu::kModified) != 0;
  if (Status status = device.modules.function(entry.image, modified ? entry.modified : entry.plain,
                                              entry.tile.shared_bytes, &made.forward_);
      status != kOk) {
    return status;
  }
  if (made.rule_.max_splits > 1) {
    if (Status status = device.modules.function(embedded_image_combine, "combine_splits", 0, &made.combine_);
        status != kOk) {
      return status;
    }
    made.workspace_size_ =
        gpu::carve_partials(nullptr, made.rule_.partial_rows, problem.head_dim_v, nullptr, nullptr);
  }
  *ready = made;
  return kOk;
}

Status ReadyKernel::run(const DeviceRefs &device, const flashattn_problem_t &problem,
                        const flashattn_call_t &call, void *workspace, CuStream stream,
                        const char **unfit) const {
  *unfit = gpu::misaligned_field(problem, call, std::max(entry_->alignment, 1));
  if (*unfit != nullptr) return kOk;
  if (entry_->family == Family::kHopper) return run_hopper(device, problem, call, workspace, stream, unfit);
  gpu::ForwardArgs args = gpu::describe_call(problem, call);
  gpu::cut_call(problem, call, entry_->tile, rule_, device.traits.l2_bytes / 2, &args);
  if (args.splits > 1) {
    gpu::carve_partials(workspace, args.partial_rows * args.splits, args.dim_v, &args.partial_o,
                        &args.partial_lse);
  }
  if (args.blocks == 0) return kOk;  // every sequence is empty
  if (Status status = launch(device.driver, forward_, args.blocks, entry_->tile.threads,
                             entry_->tile.shared_bytes, stream, args);
      status != kOk || args.splits == 1) {
    return status;
  }
  const int64_t bound = problem.layout_q == FLASHATTN_LAYOUT_RAGGED
                            ? std::min<int64_t>(args.total_q, args.bound_q)
                            : args.bound_q;
  const int64_t blocks = (args.batch * bound * args.heads_q + kCombineRows - 1) / kCombineRows;
  return launch(device.driver, combine_, blocks, kCombineThreads, 0, stream, args);
}

// One block a multiprocessor, which draws its tiles from the counter.
Status ReadyKernel::run_hopper(const DeviceRefs &device, const flashattn_problem_t &problem,
                               const flashattn_call_t &call, void *workspace, CuStream stream,
                               const char **unfit) const {
  if (call.batch == 0 || call.seqlen_q == 0) return kOk;
  sm90::FwdParams params;
  *unfit = describe_hopper_call(device.driver, *entry_, problem, call, workspace, &params);
  if (*unfit != nullptr) return kOk;
  return launch(device.driver, forward_, std::min(params.total_tiles, device.traits.multiprocessors),
                entry_->tile.threads, entry_->tile.shared_bytes, stream, params);
}

Status CudaPlan::make(const DeviceRefs &device, const flashattn_problem_t &problem,
                      std::unique_ptr<BackendPlan> *plan) {
  std::unique_ptr<CudaPlan> made(new CudaPlan(device, problem));
  if (Status status = made->choose(); status != kOk) return status;
  *plan = std::move(made);
  return kOk;
}

// The first kernel of the list that takes the problem, or the forced one; and the generic one beside it.
Status CudaPlan::choose() {
  const KernelEntry *chosen = nullptr;
  for (int32_t index = 0; index < kernel_count() && chosen == nullptr; ++index) {
    const KernelEntry &entry = kernel_at(index);
    if (problem_.kernel[0] != '\0' && std::strcmp(problem_.kernel, entry.name) != 0) continue;
    char reason[256];
    refuse(entry, problem_, device_.traits, reason, sizeof reason);
    if (reason[0] == '\0' && problem_.kernel[0] == '\0')
      yield(entry, problem_, device_.traits, reason, sizeof reason);
    if (reason[0] == '\0') {
      chosen = &entry;
    } else {
      reasons_.push_back(std::string(entry.name) + ": " + reason);
    }
  }
  if (chosen == nullptr) {
    return fail(FLASHATTN_STATUS_UNSUPPORTED, "no kernel takes the problem; %s",
                reasons_.empty() ? "kernel names none of this backend" : reasons_.back().c_str());
  }
  if (!chosen->generic()) {
    if (Status status = ReadyKernel::make(device_, problem_, *chosen, &fast_); status != kOk) return status;
    if ((problem_.flags & FLASHATTN_FLAG_REQUIRE_FAST) != 0) return kOk;
  }
  return ReadyKernel::make(device_, problem_, generic_kernel(), &generic_);
}

size_t CudaPlan::kept_bytes() const {
  return fast_ && fast_->entry().family == Family::kHopper ? kTileCounterBytes : 0;
}

Status CudaPlan::workspace_init(void *workspace, void *stream) const {
  const size_t bytes = kept_bytes();
  if (bytes == 0) return kOk;
  const ScopedContext scope(device_.driver, device_.context);
  if (Status status = scope.status(); status != kOk) return status;
  return check(device_.driver,
               device_.driver.cuMemsetD32Async(reinterpret_cast<CuPointer>(workspace), 0,
                                               bytes / sizeof(uint32_t), stream),
               "cuMemsetD32Async");
}

void CudaPlan::info(flashattn_plan_info_t *info) const {
  const ReadyKernel &first = fast_ ? *fast_ : *generic_;
  info->backend = FLASHATTN_BACKEND_CUDA;
  info->device = device_.ordinal;
  info->num_splits = first.rule().max_splits;
  info->workspace_size =
      kept_bytes() + std::max(fast_ ? fast_->workspace_size() : 0, generic_ ? generic_->workspace_size() : 0);
  info->workspace_alignment = gpu::kWorkspaceAlignment;
  info->base_alignment = std::max(first.entry().alignment, 1);
  info->stride_alignment = info->base_alignment;
  info->deterministic = 1;
  info->batch_invariant = (problem_.flags & FLASHATTN_FLAG_BATCH_INVARIANT) != 0 ? 1 : 0;
  info->capturable = 1;
  std::snprintf(info->kernel, sizeof info->kernel, "%s", first.entry().name);
  std::snprintf(info->generic_kernel, sizeof info->generic_kernel, "%s",
                generic_ ? generic_->entry().name : "");
}

Status CudaPlan::run(const flashattn_call_t &call, void *workspace, void *stream) const {
  const ScopedContext scope(device_.driver, device_.context);
  if (Status status = scope.status(); status != kOk) return status;
  const char *unfit = nullptr;
  if (fast_) {
    const Status status = fast_->run(device_, problem_, call, workspace, stream, &unfit);
    if (unfit == nullptr) return status;
    if (!generic_) {
      return fail(FLASHATTN_STATUS_UNSUPPORTED,
                  "%s has a base or stride that %s cannot take: they must be multiples of %d bytes, strides "
                  "below 2^40 bytes; flags has REQUIRE_FAST",
                  unfit, fast_->entry().name, fast_->entry().alignment);
    }
  }
  char *rest = workspace == nullptr ? nullptr : static_cast<char *>(workspace) + kept_bytes();
  return generic_->run(device_, problem_, call, rest, stream, &unfit);
}

}  // namespace flashattn::cuda
