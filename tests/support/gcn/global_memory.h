// SPDX-License-Identifier: Apache-2.0
// The memory that kernels may touch: ranges of this process, each read-only or writable. Device addresses are
// host addresses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/gcn/instruction.h"

namespace flashattn::gcn {

struct MemoryRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool writable = false;
  std::string name;
};

class GlobalMemory {
 public:
  explicit GlobalMemory(std::vector<MemoryRange> ranges);

  // Traps unless all bytes lie in one range, and in a writable one for a write.
  void check(const Wave &wave, const Instruction &instruction, uint64_t address, uint32_t bytes,
             bool write) const {
    const MemoryRange &last = ranges_[last_];
    if (address >= last.begin && address + bytes <= last.end && (last.writable || !write)) return;
    find(wave, instruction, address, bytes, write);
  }

 private:
  void find(const Wave &wave, const Instruction &instruction, uint64_t address, uint32_t bytes,
            bool write) const;

  std::vector<MemoryRange> ranges_;  // by begin
  mutable size_t last_ = 0;          // where the last access was
};

}  // namespace flashattn::gcn
