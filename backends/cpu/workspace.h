// SPDX-License-Identifier: Apache-2.0
// The memory of one running call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/carve.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/schedule.h"
#include "backends/cpu/shape.h"

namespace flashattn::cpu {

struct Workspace {
  char *scratch;  // of worker w at scratch + w * scratch_size
  int64_t scratch_size;
  float *states;  // worker w's State at states + w * state_size, for tiles that are not split
  int64_t state_size;
  std::atomic<int32_t> *pending;  // per tile of a call that is split: splits not yet computed
  float *partials;                // State number tile * splits + split
};

// Places the parts of a workspace, or counts them over a null carver.
Workspace carve_workspace(Carver *carver, const Shape &shape, const Blocking &blocking, const SplitRule &rule,
                          int32_t workers);

}  // namespace flashattn::cpu
