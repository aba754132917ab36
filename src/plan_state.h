// SPDX-License-Identifier: Apache-2.0
// A dispatch decision: what a public plan and an entry of the plan cache share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/backend.h"
#include "src/status.h"

namespace flashattn {

// Immutable once made.
struct PlanState {
  uint64_t id = 0;  // never reused within a process
  flashattn_problem_t problem;
  flashattn_plan_info_t info;
  std::unique_ptr<BackendPlan> backend;
};

using PlanPointer = std::shared_ptr<const PlanState>;

// Plans a normalised problem. A forced kernel is looked up by name here, so that a backend only has to say
// whether it takes the problem.
Status make_plan_state(const flashattn_handle &handle, const flashattn_problem_t &problem, PlanPointer *plan);

// Checks a caller's workspace against a plan: NULL, size, alignment.
Status check_workspace(const PlanState &plan, const void *workspace, size_t size);

}  // namespace flashattn
