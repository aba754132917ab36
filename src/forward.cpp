// SPDX-License-Identifier: Apache-2.0
// flashattn_workspace_init and flashattn_forward.
#include "src/barrier.h"
#include "src/call_check.h"
#include "src/plan.h"

namespace flashattn {
namespace {

Status workspace_init(const flashattn_plan *plan, void *workspace, size_t size, void *stream) {
  if (Status status = check_plan(plan); status != kOk) return status;
  if (Status status = check_workspace(*plan->state, workspace, size); status != kOk) return status;
  if (Status status = check_not_forked(*plan->handle); status != kOk) return status;
  if (plan->state->info.workspace_size == 0) return kOk;
  return plan->state->backend->workspace_init(workspace, stream);
}

Status forward(const flashattn_plan *plan, const flashattn_call_t *source, void *workspace, size_t size,
               void *stream) {
  if (Status status = check_plan(plan); status != kOk) return status;
  const PlanState &state = *plan->state;
  flashattn_call_t call;
  if (Status status = check_call(state.problem, source, &call); status != kOk) return status;
  if (Status status = check_workspace(state, workspace, size); status != kOk) return status;
  if (Status status = check_not_forked(*plan->handle); status != kOk) return status;
  if (writes_nothing(state.problem, call)) return kOk;
  return state.backend->run(call, workspace, stream);
}

}  // namespace
}  // namespace flashattn

extern "C" {

flashattn_status_t flashattn_workspace_init(const flashattn_plan_t *plan, void *workspace,
                                            size_t workspace_size, void *stream) {
  return flashattn::barrier(
      [&] { return flashattn::workspace_init(plan, workspace, workspace_size, stream); });
}

flashattn_status_t flashattn_forward(const flashattn_plan_t *plan, const flashattn_call_t *call,
                                     void *workspace, size_t workspace_size, void *stream) {
  return flashattn::barrier(
      [&] { return flashattn::forward(plan, call, workspace, workspace_size, stream); });
}

}  // extern "C"
