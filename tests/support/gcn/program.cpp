// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gcn/program.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "tests/support/gcn/decoder.h"
#include "tests/support/gcn/disassemble.h"
#include "tests/support/gcn/opcodes.h"

namespace flashattn::gcn {

namespace {

// One more than the highest bit.
int width_of(const std::array<uint64_t, 4> &set) {
  for (int word = 3; word >= 0; --word) {
    if (set[word] != 0) return 64 * word + 64 - __builtin_clzll(set[word]);
  }
  return 0;
}

}  // namespace

Program::Program(const std::string &image, const std::string &objdump) : object_(read_code_object(image)) {
  std::istringstream text(disassemble(image, object_.architecture, objdump));
  std::vector<uint64_t> targets;
  std::string line;
  while (std::getline(text, line)) {
    Instruction instruction;
    uint64_t target = 0;
    if (!decode(line, &instruction, &target)) continue;
    by_address_[instruction.address] = static_cast<int32_t>(instructions_.size());
    vector_registers_ = std::max(vector_registers_, width_of(instruction.vectors));
    accumulators_ = std::max(accumulators_, width_of(instruction.accumulators));
    instructions_.push_back(std::move(instruction));
    targets.push_back(target);
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] != 0) instructions_[i].branch = index_of(targets[i]);
  }
}

const Kernel &Program::kernel(const std::string &name) const {
  const auto found = object_.kernels.find(name);
  if (found != object_.kernels.end()) return found->second;
  std::string names;
  for (const auto &entry : object_.kernels) names += " " + entry.first;
  throw std::runtime_error("no kernel " + name + " in the code object, which has:" + names);
}

int32_t Program::index_of(uint64_t address) const {
  const auto found = by_address_.find(address);
  return found == by_address_.end() ? -1 : found->second;
}

std::vector<std::string> Program::unknown() const {
  std::vector<std::string> texts;
  for (const Instruction &instruction : instructions_) {
    if (instruction.execute == nullptr) texts.push_back(instruction.text);
  }
  return texts;
}

void Program::erase(size_t index) {
  Instruction nop;
  nop.address = instructions_[index].address;
  nop.next = instructions_[index].next;
  nop.mnemonic = "s_nop";
  nop.text = "erased: " + instructions_[index].text;
  nop.execute = opcodes().at("s_nop");
  instructions_[index] = nop;
}

}  // namespace flashattn::gcn
