// SPDX-License-Identifier: Apache-2.0
// What stops the machine: a rule of the hardware or of the host that the running code broke.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "tests/support/gcn/instruction.h"

namespace flashattn::gcn {

struct Trap : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws Trap: what happened, the workgroup, the wave and the instruction.
[[noreturn]] void trap(const Wave &wave, const Instruction &instruction, const std::string &what);
[[noreturn]] void trap_at(const Wave &wave, const Instruction &instruction, const std::string &what,
                          uint64_t address);

}  // namespace flashattn::gcn
