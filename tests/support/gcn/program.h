// SPDX-License-Identifier: Apache-2.0
// A loaded code object: its kernels and its decoded instructions.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/support/gcn/code_object.h"
#include "tests/support/gcn/instruction.h"

namespace flashattn::gcn {

class Program {
 public:
  // image: the ELF. objdump: path of llvm-objdump. Throws std::runtime_error.
  Program(const std::string &image, const std::string &objdump);

  const CodeObject &object() const { return object_; }
  const std::vector<Instruction> &instructions() const { return instructions_; }
  // Throws std::runtime_error naming the kernels there are.
  const Kernel &kernel(const std::string &name) const;
  // Registers below these numbers are all that the instructions name.
  int vector_registers() const { return vector_registers_; }
  int accumulators() const { return accumulators_; }
  // Index of the instruction at an address, or -1.
  int32_t index_of(uint64_t address) const;
  // Texts of instructions the machine cannot execute; running into one traps.
  std::vector<std::string> unknown() const;

  // For mutation tests: turns instruction `index` into s_nop.
  void erase(size_t index);

 private:
  CodeObject object_;
  std::vector<Instruction> instructions_;
  std::unordered_map<uint64_t, int32_t> by_address_;
  int vector_registers_ = 1;  // v0 is set up by the hardware
  int accumulators_ = 0;
};

}  // namespace flashattn::gcn
