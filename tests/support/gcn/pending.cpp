// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gcn/pending.h"

#include <utility>

#include "tests/support/gcn/lanes.h"
#include "tests/support/gcn/trap.h"

namespace flashattn::gcn {
namespace {

void set_bits(uint64_t *words, uint16_t first, uint16_t count, bool on) {
  for (uint32_t i = first; i < static_cast<uint32_t>(first) + count; ++i) {
    const uint64_t bit = uint64_t{1} << (i % 64);
    words[i / 64] = on ? words[i / 64] | bit : words[i / 64] & ~bit;
  }
}

bool is_lds_operation(const PendingOperation &operation) {
  return operation.instruction->memory == Memory::kLds;
}

}  // namespace

void PendingMemory::clear() {
  vector_.clear();
  lgkm_.clear();
  held_.clear();
  flat_lgkm_ = 0;
  vectors_ = {};
  accumulators_ = {};
  scalars_ = {};
}

PendingOperation PendingMemory::take_spare() {
  if (spare_.empty()) return {};
  PendingOperation operation = std::move(spare_.back());
  spare_.pop_back();
  operation.lds_writes.clear();
  operation.keep = 0;
  operation.kind = OperandKind::kNone;
  operation.count = 0;
  return operation;
}

PendingOperation &PendingMemory::issue(Wave &wave, const Instruction &instruction) {
  PendingOperation operation = take_spare();
  operation.instruction = &instruction;
  operation.lanes = wave.exec();
  operation.waits_twice = instruction.memory == Memory::kFlat;
  if (operation.waits_twice) ++flat_lgkm_;
  const bool on_lgkm = instruction.memory == Memory::kLds || instruction.memory == Memory::kScalarLoad;
  std::deque<PendingOperation> &queue = on_lgkm ? lgkm_ : vector_;
  queue.push_back(std::move(operation));
  return queue.back();
}

PendingOperation &PendingMemory::issue_load(Wave &wave, const Instruction &instruction,
                                            const Operand &operand) {
  PendingOperation &operation = issue(wave, instruction);
  operation.kind = operand.kind;
  operation.first = operand.first;
  operation.count = operand.count;
  operation.values.resize(static_cast<size_t>(operand.count) * kLanes);
  mark(operation, true);
  return operation;
}

void PendingMemory::mark(const PendingOperation &operation, bool under_way) {
  if (operation.kind == OperandKind::kVector) {
    set_bits(vectors_.data(), operation.first, operation.count, under_way);
  } else if (operation.kind == OperandKind::kAccumulator) {
    set_bits(accumulators_.data(), operation.first, operation.count, under_way);
  } else if (operation.kind == OperandKind::kScalar) {
    set_bits(scalars_.data(), operation.first, operation.count, under_way);
  }
}

void PendingMemory::complete(Wave &wave, PendingOperation *operation) {
  mark(*operation, false);
  for (const LdsWrite &write : operation->lds_writes) {
    wave.workgroup->lds.end_write(wave, *operation->instruction, write.address, write.data.data(),
                                  write.bytes);
  }
  for (uint32_t k = 0; k < operation->count; ++k) {
    const uint32_t *values = &operation->values[static_cast<size_t>(k) * kLanes];
    if (operation->kind == OperandKind::kScalar) {
      wave.s[operation->first + k] = operation->values[k];
      continue;
    }
    Row &row = (operation->kind == OperandKind::kVector ? wave.v : wave.a)[operation->first + k];
    if (operation->keep == 0) {
      merge_lanes(operation->lanes, values, row.data());
      continue;
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((operation->lanes >> lane & 1) == 0) continue;
      row[lane] = (row[lane] & operation->keep) | (values[lane] & ~operation->keep);
    }
  }
  spare_.push_back(std::move(*operation));
}

void PendingMemory::wait(Wave &wave, uint16_t immediate) {
  // vmcnt is bits 3:0 and 15:14, lgkmcnt bits 11:8 (CDNA3 ISA, S_WAITCNT).
  const size_t vmcnt = (immediate & 15U) | (immediate >> 14 & 3U) << 4;
  const size_t lgkmcnt = immediate >> 8 & 15U;
  while (vector_.size() > vmcnt) {
    PendingOperation operation = std::move(vector_.front());
    vector_.pop_front();
    if (operation.waits_twice) {
      held_.push_back(std::move(operation));
    } else {
      complete(wave, &operation);
    }
  }
  if (lgkmcnt == 0) {
    for (PendingOperation &operation : lgkm_) complete(wave, &operation);
    lgkm_.clear();
    for (PendingOperation &operation : held_) complete(wave, &operation);
    held_.clear();
    for (PendingOperation &operation : vector_) operation.waits_twice = false;
    flat_lgkm_ = 0;
    return;
  }
  // Scalar loads and flat operations may be the last to come, whatever the count says.
  for (auto at = lgkm_.begin(); at != lgkm_.end() && lgkm_.size() + flat_lgkm_ > lgkmcnt;) {
    if (!is_lds_operation(*at)) {
      ++at;
      continue;
    }
    complete(wave, &*at);
    at = lgkm_.erase(at);
  }
}

void PendingMemory::wait_for_all(Wave &wave) {
  wait(wave, 0);
}

void PendingMemory::settle_lds_writes(Wave &wave) {
  for (PendingOperation &operation : lgkm_) {
    if (operation.lds_writes.empty()) continue;
    for (const LdsWrite &write : operation.lds_writes) {
      wave.workgroup->lds.end_write(wave, *operation.instruction, write.address, write.data.data(),
                                    write.bytes);
    }
    operation.lds_writes.clear();  // still counted, but landed
  }
}

}  // namespace flashattn::gcn
