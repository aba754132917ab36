// SPDX-License-Identifier: Apache-2.0
// Memory operations that a wave has issued and not yet waited for. They complete at the latest moment the ISA
// allows: when an s_waitcnt forces them, or when a younger operation of the same queue must follow them.
// Until then their destination may not be touched; the machine stops when it is. That makes a missing wait
// visible on every run instead of on an unlucky one.
//
// CDNA3 ISA, "Data dependency resolution": vmcnt counts vector memory in issue order; lgkmcnt counts LDS, in
// order among themselves, and scalar loads, which come in any order.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "tests/support/gcn/instruction.h"

namespace flashattn::gcn {

// Bytes on their way into LDS.
struct LdsWrite {
  uint32_t address = 0;
  uint32_t bytes = 0;
  std::array<uint32_t, 4> data{};
};

struct PendingOperation {
  const Instruction *instruction = nullptr;
  uint64_t lanes = 0;                     // active when it was issued
  OperandKind kind = OperandKind::kNone;  // destination registers; kNone: none
  uint16_t first = 0;
  uint16_t count = 0;
  uint32_t keep = 0;             // bits of the destination that stay as they are (d16 loads)
  bool waits_twice = false;      // flat: counted by both counters, arrives when both allow it
  std::vector<uint32_t> values;  // [count][lane]; scalar loads: [count]
  std::vector<LdsWrite> lds_writes;
};

class PendingMemory {
 public:
  void clear();
  size_t size() const { return vector_.size() + lgkm_.size() + held_.size(); }
  bool empty() const { return size() == 0; }

  // Adds an operation whose results are filled in by the caller. The reference is valid until the next call.
  PendingOperation &issue(Wave &wave, const Instruction &instruction);
  // Destination registers are `operand`; they may not be touched until the operation completes.
  PendingOperation &issue_load(Wave &wave, const Instruction &instruction, const Operand &operand);

  // s_waitcnt with its encoded immediate.
  void wait(Wave &wave, uint16_t immediate);
  void wait_for_all(Wave &wave);

  // LDS operations of a wave are in order: before one reads or writes, the wave's earlier LDS writes have
  // landed.
  void settle_lds_writes(Wave &wave);

  // Whether an operand of the instruction is the destination of an operation under way.
  bool touches(const Instruction &instruction) const {
    uint64_t common = 0;
    for (size_t i = 0; i < vectors_.size(); ++i) {
      common |= vectors_[i] & instruction.vectors[i];
      common |= accumulators_[i] & instruction.accumulators[i];
    }
    common |= (scalars_[0] & instruction.scalars[0]) | (scalars_[1] & instruction.scalars[1]);
    return common != 0;
  }

 private:
  void mark(const PendingOperation &operation, bool under_way);
  void complete(Wave &wave, PendingOperation *operation);
  PendingOperation take_spare();

  std::deque<PendingOperation> vector_;
  std::deque<PendingOperation> lgkm_;
  std::vector<PendingOperation> held_;   // flat operations that vmcnt has released and lgkmcnt not yet
  std::vector<PendingOperation> spare_;  // for their buffers
  uint32_t flat_lgkm_ = 0;               // flat operations that lgkmcnt still counts
  std::array<uint64_t, 4> vectors_{};
  std::array<uint64_t, 4> accumulators_{};
  std::array<uint64_t, 2> scalars_{};
};

}  // namespace flashattn::gcn
