// SPDX-License-Identifier: Apache-2.0
// The text of a code object's instructions, from llvm-objdump: the one decoder of encodings that is known
// good.
#pragma once

#include <string>

namespace flashattn::gcn {

// Runs `objdump` (a path) on the image. Throws std::runtime_error when it cannot be run or fails.
std::string disassemble(const std::string &image, const std::string &architecture,
                        const std::string &objdump);

}  // namespace flashattn::gcn
