// SPDX-License-Identifier: Apache-2.0
// flashattn_attention: plan, workspace and run in one call.
#include "src/barrier.h"
#include "src/call_check.h"
#include "src/handle.h"
#include "src/problem.h"

namespace flashattn {
namespace {

// CAPTURING when the stream is being captured; `why` is what a captured stream does not allow.
Status check_not_capturing(flashattn_handle *handle, void *stream, const char *why) {
  if (!handle->device->asynchronous()) return kOk;
  bool capturing = false;
  if (Status status = handle->device->is_capturing(stream, &capturing); status != kOk) return status;
  if (!capturing) return kOk;
  return fail(FLASHATTN_STATUS_CAPTURING,
              "stream is %p and being captured; %s (plan beforehand and use flashattn_forward)", stream, why);
}

Status find_or_make_plan(flashattn_handle *handle, const flashattn_problem_t &problem, void *stream,
                         PlanPointer *plan) {
  *plan = handle->plans.find(problem);
  if (*plan != nullptr) return kOk;
  if (Status status =
          check_not_capturing(handle, stream, "the problem has no cached plan, and making one loads code");
      status != kOk) {
    return status;
  }
  if (Status status = make_plan_state(*handle, problem, plan); status != kOk) return status;
  *plan = handle->plans.keep(std::move(*plan));
  return kOk;
}

Status run_planned(flashattn_handle *handle, const PlanState &plan, const flashattn_call_t &call,
                   void *stream) {
  if (plan.info.workspace_size == 0) return plan.backend->run(call, nullptr, stream);
  if (Status status =
          check_not_capturing(handle, stream, "the plan needs workspace, which comes from a pool");
      status != kOk) {
    return status;
  }
  return handle->workspaces->with_workspace(
      plan, stream, [&](void *workspace) { return plan.backend->run(call, workspace, stream); });
}

Status attend(flashattn_handle *handle, const flashattn_problem_t *source_problem,
              const flashattn_call_t *source_call, void *stream) {
  flashattn_problem_t problem;
  if (Status status = normalise_problem(source_problem, &problem); status != kOk) return status;
  PlanPointer plan;
  if (Status status = find_or_make_plan(handle, problem, stream, &plan); status != kOk) return status;
  flashattn_call_t call;
  if (Status status = check_call(problem, source_call, &call); status != kOk) return status;
  if (writes_nothing(problem, call)) return kOk;
  return run_planned(handle, *plan, call, stream);
}

Status attention(flashattn_handle *handle, const flashattn_problem_t *problem, const flashattn_call_t *call,
                 void *stream) {
  if (Status status = check_handle(handle); status != kOk) return status;
  if (Status status = check_not_forked(*handle); status != kOk) return status;
  const Status status = barrier([&] { return attend(handle, problem, call, stream); });
  if (status != kOk) handle->host.log(FLASHATTN_LOG_ERROR, "attention: %s", flashattn_last_error());
  return status;
}

}  // namespace
}  // namespace flashattn

extern "C" flashattn_status_t flashattn_attention(flashattn_handle_t *handle,
                                                  const flashattn_problem_t *problem,
                                                  const flashattn_call_t *call, void *stream) {
  return flashattn::barrier([&] { return flashattn::attention(handle, problem, call, stream); });
}
