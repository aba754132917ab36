// SPDX-License-Identifier: Apache-2.0
// Runs a kernel of a program over a grid, one workgroup after the other, its waves interleaved.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/gcn/program.h"
#include "tests/support/gcn/wave.h"

namespace flashattn::gcn {

struct Launch {
  std::array<uint32_t, 3> grid{1, 1, 1};    // workgroups
  std::array<uint32_t, 3> block{64, 1, 1};  // work items
  uint32_t dynamic_lds_bytes = 0;
  std::vector<uint8_t> arguments;  // the explicit kernel arguments at their offsets
};

struct MachineOptions {
  // Order of workgroups, turns of waves. Equal seeds give equal runs.
  uint64_t seed = 1;
  // Most instructions a wave runs before another may be preferred, by chance; 0: until it waits at a barrier.
  uint32_t quantum = 0;
  // Results arrive at once instead of when waited for. Hides missing waits: for showing that, and for nothing
  // else.
  bool eager_memory = false;
  bool count_bank_conflicts = false;
  // Traps once a launch has run this many wave-instructions; 0: no limit. For programs that may not end.
  uint64_t instruction_limit = 0;
};

// Throws Trap when the code breaks a rule, std::runtime_error when the launch itself is not possible.
// Registers and LDS begin as poison; arguments that `launch` does not give are poison, except the hidden ones
// that describe the grid.
Statistics run(const Program &program, const std::string &kernel, const Launch &launch,
               const std::vector<MemoryRange> &memory, const MachineOptions &options);

}  // namespace flashattn::gcn
