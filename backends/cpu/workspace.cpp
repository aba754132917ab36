// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/workspace.h"

namespace flashattn::cpu {

Workspace carve_workspace(Carver *carver, const Shape &shape, const Blocking &blocking, const SplitRule &rule,
                          int32_t workers) {
  Workspace workspace{};
  workspace.scratch_size = static_cast<int64_t>(blocking.scratch_size);
  workspace.state_size = state_floats(blocking.heads * blocking.rows, shape.dim_v);
  workspace.scratch = carver->take<char>(workers * workspace.scratch_size);
  workspace.states = carver->take<float>(workers * workspace.state_size);
  if (rule.slots > 0) {
    workspace.pending = carver->take<std::atomic<int32_t>>(rule.max_tiles);
    workspace.partials = carver->take<float>(rule.slots * workspace.state_size);
  }
  return workspace;
}

}  // namespace flashattn::cpu
