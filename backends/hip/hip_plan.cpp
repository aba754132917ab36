// SPDX-License-Identifier: Apache-2.0
#include "backends/hip/hip_plan.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "backends/hip/images.h"

namespace flashattn::hip {
namespace {

constexpr int32_t kCombineThreads = 256;  // as generic/combine.hip
constexpr int32_t kCombineRows = kCombineThreads / 64;

}  // namespace

Status ReadyKernel::make(const DeviceRefs &device, const flashattn_problem_t &problem,
                         const KernelEntry &entry, std::optional<ReadyKernel> *ready) {
  ReadyKernel made;
  made.entry_ = &entry;
  made.rule_ = gpu::make_split_rule(problem, entry.tile, int64_t{device.compute_units} * entry.resident);
  const int64_t row_bytes = (int64_t{problem.head_dim_v} + 1) * static_cast<int64_t>(sizeof(float));
  if (made.rule_.partial_rows > (INT64_MAX / 2) / row_bytes) {
    return fail(FLASHATTN_STATUS_UNSUPPORTED,
                "num_splits is %d; partial results for max_batch %d and max_seqlen_q %d fit no address space",
                problem.num_splits, problem.max_batch, problem.max_seqlen_q);
  }
  const bool modified = (gpu::describe_call(problem, flashattn_call_t{}).flags & gpu::kModified) != 0;
  if (Status status =
          device.modules.function(entry.image, modified ? entry.modified : entry.plain, &made.forward_);
      status != kOk) {
    return status;
  }
  if (made.rule_.max_splits > 1) {
    if (Status status = device.modules.function(embedded_code_combine, "combine_splits", &made.combine_);
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
                        const flashattn_call_t &call, void *workspace, HipStream stream) const {
  gpu::ForwardArgs args = gpu::describe_call(problem, call);
  gpu::cut_call(problem, call, entry_->tile, rule_, device.l2_bytes / 2, &args);
  if (args.splits > 1) {
    gpu::carve_partials(workspace, args.partial_rows * args.splits, args.dim_v, &args.partial_o,
                        &args.partial_lse);
  }
  if (args.blocks == 0) return kOk;  // every sequence is empty
  if (Status status = launch(device.driver, forward_, args.blocks, most_blocks(entry_->tile),
                             entry_->tile.threads, stream, args);
      status != kOk || args.splits == 1) {
    return status;
  }
  const bool ragged = problem.layout_q == FLASHATTN_LAYOUT_RAGGED;
  const int64_t bound = ragged ? std::min<int64_t>(args.total_q, args.bound_q) : args.bound_q;
  const int64_t blocks = (args.batch * bound * args.heads_q + kCombineRows - 1) / kCombineRows;
  return launch(device.driver, combine_, blocks, UINT32_MAX / kCombineThreads, kCombineThreads, stream, args);
}

Status HipPlan::make(const DeviceRefs &device, const flashattn_problem_t &problem,
                     std::unique_ptr<BackendPlan> *plan) {
  std::unique_ptr<HipPlan> made(new HipPlan(device, problem));
  if (Status status = made->choose(); status != kOk) return status;
  *plan = std::move(made);
  return kOk;
}

// The first kernel of the list that takes the problem, or the forced one; and the generic one beside it.
Status HipPlan::choose() {
  const KernelEntry *chosen = nullptr;
  for (int32_t index = 0; index < kernel_count() && chosen == nullptr; ++index) {
    const KernelEntry &entry = kernel_at(index);
    if (problem_.kernel[0] != '\0' && std::strcmp(problem_.kernel, entry.name) != 0) continue;
    char reason[256];
    refuse(entry, problem_, reason, sizeof reason);
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
  if (!chosen->generic) {
    if (Status status = ReadyKernel::make(device_, problem_, *chosen, &fast_); status != kOk) return status;
    if ((problem_.flags & FLASHATTN_FLAG_REQUIRE_FAST) != 0) return kOk;
  }
  return ReadyKernel::make(device_, problem_, generic_kernel(), &generic_);
}

void HipPlan::info(flashattn_plan_info_t *info) const {
  const ReadyKernel &first = fast_ ? *fast_ : *generic_;
  info->backend = FLASHATTN_BACKEND_HIP;
  info->device = device_.ordinal;
  info->num_splits = first.rule().max_splits;
  info->workspace_size = std::max(fast_ ? fast_->workspace_size() : size_t{0},
                                  generic_ ? generic_->workspace_size() : size_t{0});
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

Status HipPlan::run(const flashattn_call_t &call, void *workspace, void *stream) const {
  const ReadyKernel *kernel = fast_ ? &*fast_ : &*generic_;
  if (fast_) {
    const char *field = gpu::misaligned_field(problem_, call, fast_->entry().alignment);
    if (field != nullptr && !generic_) {
      return fail(FLASHATTN_STATUS_UNSUPPORTED,
                  "%s has a base or stride that is no multiple of %d bytes, which %s needs, and flags has "
                  "REQUIRE_FAST",
                  field, fast_->entry().alignment, fast_->entry().name);
    }
    if (field != nullptr) kernel = &*generic_;
  }
  const ScopedDevice scope(device_.driver, device_.ordinal);
  if (Status status = scope.status(); status != kOk) return status;
  return kernel->run(device_, problem_, call, workspace, stream);
}

}  // namespace flashattn::hip
