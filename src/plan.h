// SPDX-License-Identifier: Apache-2.0
// The object behind flashattn_plan_t.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/handle.h"
#include "src/plan_state.h"
#include "src/status.h"

struct flashattn_plan {
  flashattn_plan(flashattn_handle *the_handle, flashattn::PlanPointer the_state);
  ~flashattn_plan();

  std::atomic<uint64_t> mark{flashattn::kLivePlan};  // see LifeMark
  flashattn_handle *handle;                          // one reference is this plan's
  flashattn::PlanPointer state;
};

namespace flashattn {

// NULL_POINTER or INVALID_ARGUMENT unless the plan is live.
Status check_plan(const flashattn_plan *plan);

}  // namespace flashattn
