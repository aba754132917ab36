// SPDX-License-Identifier: Apache-2.0
// One line of llvm-objdump into an Instruction.
#pragma once

#include <string>

#include "tests/support/gcn/instruction.h"

namespace flashattn::gcn {

// False when the line holds no instruction (labels, headings). An instruction whose mnemonic, operand or
// modifier is not known has execute == nullptr. `branch` is left at -1; *target is the branch's address, 0
// for others.
bool decode(const std::string &line, Instruction *instruction, uint64_t *target);

}  // namespace flashattn::gcn
