// SPDX-License-Identifier: Apache-2.0
// Runs one call: hands its items to the workers and merges what was split.
#pragma once

#include "backends/cpu/kernel.h"
#include "backends/cpu/schedule.h"
#include "backends/cpu/workers.h"
#include "backends/cpu/workspace.h"

namespace flashattn::cpu {

// The call's sequences have been checked. Allocates nothing.
void forward(const Shape &shape, const Kernel &kernel, const Blocking &blocking, const SplitRule &rule,
             const flashattn_call_t &call, const Workspace &workspace, Workers *workers);

// Workers worth waking for this much work.
int32_t useful_workers(double multiply_adds, int64_t items);

}  // namespace flashattn::cpu
