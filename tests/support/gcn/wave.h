// SPDX-License-Identifier: Apache-2.0
// The state of one wave of 64 lanes and of the workgroup it belongs to.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/support/gcn/global_memory.h"
#include "tests/support/gcn/instruction.h"
#include "tests/support/gcn/lds.h"
#include "tests/support/gcn/pending.h"

namespace flashattn::gcn {

// What the machine counts for a launch.
struct Statistics {
  uint64_t instructions = 0;          // wave-instructions executed
  uint64_t bank_conflict_cycles = 0;  // with MachineOptions::count_bank_conflicts
  std::vector<uint64_t> executed;     // by instruction index of the program
  std::vector<uint64_t>
      waited_for;  // likewise: memory operations that an s_waitcnt found under way and ended
};

struct Workgroup {
  std::array<uint32_t, 3> id{};
  Lds lds;
  const GlobalMemory *memory = nullptr;
  Statistics *statistics = nullptr;
  bool count_bank_conflicts = false;
};

using Row = std::array<uint32_t, kLanes>;  // one register, by lane

struct alignas(64) Wave {
  std::array<Row, kVectorRegisters> v;
  std::array<Row, kVectorRegisters> a;
  std::array<uint32_t, kScalarRegisters> s;
  bool scc = false;
  bool done = false;
  bool at_barrier = false;
  int id = 0;        // within the workgroup
  int32_t at = 0;    // index of the running instruction
  int32_t next = 0;  // index of the next one
  PendingMemory pending;
  Workgroup *workgroup = nullptr;

  uint64_t pair(int first) const { return s[first] | static_cast<uint64_t>(s[first + 1]) << 32; }
  void set_pair(int first, uint64_t value) {
    s[first] = static_cast<uint32_t>(value);
    s[first + 1] = static_cast<uint32_t>(value >> 32);
  }
  uint64_t exec() const { return pair(kExec); }
};

}  // namespace flashattn::gcn
