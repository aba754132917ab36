// SPDX-License-Identifier: Apache-2.0
#include "src/plan.h"

#include <cinttypes>
#include <cstring>
#include <utility>

#include "src/barrier.h"
#include "src/host_allocator.h"
#include "src/problem.h"
#include "src/structs.h"

flashattn_plan::flashattn_plan(flashattn_handle *the_handle, flashattn::PlanPointer the_state)
    : handle(the_handle), state(std::move(the_state)) {
  flashattn::retain_handle(handle);
}

flashattn_plan::~flashattn_plan() {
  state.reset();  // before the device it was planned for may go
  flashattn::release_handle(handle);
}

namespace flashattn {
namespace {

std::atomic<uint64_t> g_plan_count{0};

Status check_kernel_name(const Backend &backend, const char *kernel) {
  if (kernel[0] == '\0') return kOk;
  for (int32_t index = 0; index < backend.kernel_count(); ++index) {
    auto info = make_struct<flashattn_kernel_info_t>();
    backend.kernel_info(index, &info);
    if (std::strcmp(info.name, kernel) != 0) continue;
    if (info.available != 0) return kOk;
    return fail(FLASHATTN_STATUS_UNSUPPORTED, "kernel is \"%s\"; it cannot run here: %s", kernel,
                info.reason);
  }
  return fail(
      FLASHATTN_STATUS_UNSUPPORTED,
      "kernel is \"%s\"; the backend %s has no kernel of that name (flashattn_kernel_info lists them)",
      kernel, backend.name());
}

Status plan_create(flashattn_handle *handle, const flashattn_problem_t *source, flashattn_plan **plan) {
  if (plan == nullptr) return fail(FLASHATTN_STATUS_NULL_POINTER, "plan is NULL");
  *plan = nullptr;
  if (Status status = check_handle(handle); status != kOk) return status;
  if (Status status = check_not_forked(*handle); status != kOk) return status;
  const Status status = barrier([&]() -> Status {
    flashattn_problem_t problem;
    if (Status invalid = normalise_problem(source, &problem); invalid != kOk) return invalid;
    PlanPointer state;
    if (Status refused = make_plan_state(*handle, problem, &state); refused != kOk) return refused;
    *plan = host_new<flashattn_plan>(handle->host, handle, std::move(state));
    return kOk;
  });
  if (status != kOk) handle->host.log(FLASHATTN_LOG_ERROR, "plan_create: %s", flashattn_last_error());
  return status;
}

Status plan_info(const flashattn_plan *plan, flashattn_plan_info_t *target) {
  if (Status status = check_plan(plan); status != kOk) return status;
  if (Status status = check_output_struct("info", target); status != kOk) return status;
  write_struct(plan->state->info, target);
  return kOk;
}

Status plan_reason(const flashattn_plan *plan, int32_t index, const char **reason) {
  if (reason == nullptr) return fail(FLASHATTN_STATUS_NULL_POINTER, "reason is NULL");
  *reason = nullptr;
  if (Status status = check_plan(plan); status != kOk) return status;
  const int32_t count = plan->state->info.reason_count;
  if (index < 0 || index >= count) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
                "index is %d; it must be at least 0 and below reason_count, %d", index, count);
  }
  *reason = plan->state->backend->reasons()[static_cast<size_t>(index)].c_str();
  return kOk;
}

}  // namespace

Status make_plan_state(const flashattn_handle &handle, const flashattn_problem_t &problem,
                       PlanPointer *plan) {
  if (Status status = check_kernel_name(*handle.backend, problem.kernel); status != kOk) return status;
  auto state = std::allocate_shared<PlanState>(HostAllocator<PlanState>(handle.host));
  state->problem = problem;
  if (Status status = handle.device->plan(problem, &state->backend); status != kOk) return status;
  state->id = g_plan_count.fetch_add(1, std::memory_order_relaxed) + 1;
  state->info = make_struct<flashattn_plan_info_t>();
  state->backend->info(&state->info);
  state->info.reason_count = static_cast<int32_t>(state->backend->reasons().size());
  state->info.materialized_bytes = materialized_bytes(problem);
  handle.host.log(FLASHATTN_LOG_DEBUG, "planned %s (generic %s), %" PRIu64 " bytes of workspace",
                  state->info.kernel, state->info.generic_kernel, state->info.workspace_size);
  *plan = std::move(state);
  return kOk;
}

Status check_plan(const flashattn_plan *plan) {
  if (plan == nullptr) return fail(FLASHATTN_STATUS_NULL_POINTER, "plan is NULL");
  if (plan->mark.load(std::memory_order_relaxed) == kLivePlan) return kOk;
  return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "plan is %p; it is not a live plan",
              static_cast<const void *>(plan));
}

Status check_workspace(const PlanState &plan, const void *workspace, size_t size) {
  if (plan.info.workspace_size == 0) return kOk;
  if (workspace == nullptr) {
    return fail(FLASHATTN_STATUS_NULL_POINTER, "workspace is NULL; the plan needs %" PRIu64 " bytes",
                plan.info.workspace_size);
  }
  if (size < plan.info.workspace_size) {
    return fail(FLASHATTN_STATUS_WORKSPACE, "workspace_size is %zu; the plan needs %" PRIu64 " bytes", size,
                plan.info.workspace_size);
  }
  if (reinterpret_cast<uintptr_t>(workspace) % plan.info.workspace_alignment != 0) {
    return fail(FLASHATTN_STATUS_WORKSPACE, "workspace is %p; it must be aligned to %" PRIu64 " bytes",
                workspace, plan.info.workspace_alignment);
  }
  return kOk;
}

}  // namespace flashattn

extern "C" {

flashattn_status_t flashattn_plan_create(flashattn_handle_t *handle, const flashattn_problem_t *problem,
                                         flashattn_plan_t **plan) {
  return flashattn::barrier([&] { return flashattn::plan_create(handle, problem, plan); });
}

void flashattn_plan_destroy(flashattn_plan_t *plan) {
  if (plan == nullptr) return;
  const flashattn::CancellationHold hold;
  uint64_t live = flashattn::kLivePlan;
  if (!plan->mark.compare_exchange_strong(live, flashattn::kDestroyed)) return;
  // What belongs to a driver that did not survive a fork is left where it is, see release_handle.
  const flashattn::SavedError before;
  if (flashattn::check_not_forked(*plan->handle) != flashattn::kOk) {
    before.restore();
    return;
  }
  flashattn::host_delete(plan->handle->host, plan);
}

flashattn_status_t flashattn_plan_info(const flashattn_plan_t *plan, flashattn_plan_info_t *info) {
  return flashattn::barrier([&] { return flashattn::plan_info(plan, info); });
}

flashattn_status_t flashattn_plan_reason(const flashattn_plan_t *plan, int32_t index, const char **reason) {
  return flashattn::barrier([&] { return flashattn::plan_reason(plan, index, reason); });
}

}  // extern "C"
