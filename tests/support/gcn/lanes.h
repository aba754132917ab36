// SPDX-License-Identifier: Apache-2.0
// Reading and writing operands of vector instructions, 64 lanes at a time.
#pragma once

#include <cmath>
#include <cstring>

#include "tests/support/gcn/formats.h"
#include "tests/support/gcn/instruction.h"
#include "tests/support/gcn/wave.h"

namespace flashattn::gcn {

inline bool is_register_file(const Operand &operand) {
  return operand.kind == OperandKind::kVector || operand.kind == OperandKind::kAccumulator;
}

inline Row &register_row(Wave &wave, const Operand &operand, int k = 0) {
  return operand.kind == OperandKind::kAccumulator ? wave.a[operand.first + k] : wave.v[operand.first + k];
}

// Lane k of `to` becomes `from`'s where bit k of `lanes` is set.
inline void merge_lanes(uint64_t lanes, const uint32_t *from, uint32_t *to) {
  if (lanes == ~uint64_t{0}) {
    std::memcpy(to, from, sizeof(Row));
    return;
  }
  for (int half = 0; half < 2; ++half) {
    const auto bits = static_cast<uint32_t>(lanes >> (32 * half));
    for (uint32_t k = 0; k < 32; ++k) {
      const uint32_t keep = (bits >> k & 1) - 1;
      to[32 * half + k] = (to[32 * half + k] & keep) | (from[32 * half + k] & ~keep);
    }
  }
}

inline uint32_t read_scalar(const Wave &wave, const Operand &operand) {
  switch (operand.kind) {
    case OperandKind::kScalar:
      return wave.s[operand.first];
    case OperandKind::kConstant:
      return operand.value;
    case OperandKind::kStatus:
      if (operand.status == Status::kScc) return wave.scc;
      return operand.status == Status::kVccz ? wave.pair(kVcc) == 0 : wave.exec() == 0;
    default:
      return 0;
  }
}

inline uint64_t read_scalar64(const Wave &wave, const Operand &operand) {
  if (operand.kind == OperandKind::kScalar) return wave.pair(operand.first);
  return operand.kind == OperandKind::kConstant ? operand.value64 : read_scalar(wave, operand);
}

// Register number k of the operand. Scalars and constants are broadcast into `scratch`.
inline const uint32_t *source(Wave &wave, const Operand &operand, Row &scratch, int k = 0) {
  if (is_register_file(operand)) return register_row(wave, operand, k).data();
  uint32_t value = 0;
  if (operand.kind == OperandKind::kScalar) {
    value = wave.s[operand.first + k];
  } else if (operand.kind == OperandKind::kConstant && k == 1) {
    value = static_cast<uint32_t>(operand.value64 >> 32);
  } else {
    value = read_scalar(wave, operand);
  }
  scratch.fill(value);
  return scratch.data();
}

// The low register of a 64-bit operand: of an f64 constant, its low half.
inline const uint32_t *source_low(Wave &wave, const Operand &operand, Row &scratch) {
  if (operand.kind != OperandKind::kConstant) return source(wave, operand, scratch);
  scratch.fill(static_cast<uint32_t>(operand.value64));
  return scratch.data();
}

// SDWA: the selected part of each lane.
inline void select_part(const SubDword &select, uint32_t *row) {
  if (select.width == 32) return;
  const uint32_t mask = (1U << select.width) - 1;
  for (int lane = 0; lane < kLanes; ++lane) {
    uint32_t value = row[lane] >> select.shift & mask;
    if (select.sign_extend && (value >> (select.width - 1) & 1) != 0) value |= ~mask;
    row[lane] = value;
  }
}

// DPP: each lane takes the value of another. Lanes that must not be written lose their bit in *enabled.
void apply_dpp(Wave &wave, const Instruction &instruction, uint32_t *row, uint64_t *enabled);

// The sources and the destination of one vector instruction with everything its encoding can add: DPP and
// SDWA selects, float modifiers (for operands read as f32), output scale and clamp.
class VectorOperation {
 public:
  VectorOperation(Wave &wave, const Instruction &instruction)
      : wave_(wave), instruction_(instruction), enabled_(wave.exec()) {}

  // Source `index` (0 = first after the destinations) as it stands.
  const uint32_t *integer(int operand_index, int source_index) {
    const Operand &operand = instruction_.operands[operand_index];
    const uint32_t *row = source(wave_, operand, scratch_[source_index]);
    if (!instruction_.dpp && !instruction_.sdwa) return row;
    return select(row, source_index);
  }

  // With the sign modifiers of the operand: bit 31, or bit 15 for f16.
  const uint32_t *floating(int operand_index, int source_index, uint32_t sign_bit = 0x80000000U) {
    const Operand &operand = instruction_.operands[operand_index];
    const uint32_t *row = integer(operand_index, source_index);
    if (!operand.negate && !operand.absolute) return row;
    const uint32_t keep = operand.absolute ? ~sign_bit : ~0U;
    const uint32_t flip = operand.negate ? sign_bit : 0;
    uint32_t *own = scratch_[source_index].data();
    for (int lane = 0; lane < kLanes; ++lane) own[lane] = (row[lane] & keep) ^ flip;
    return own;
  }

  uint32_t *result() { return result_.data(); }

  void write(int operand_index = 0, int k = 0) {
    const Operand &operand = instruction_.operands[operand_index];
    uint32_t *to = register_row(wave_, operand, k).data();
    if (instruction_.sdwa) place(to);
    merge_lanes(enabled_, result_.data(), to);
  }

  // Output scale and clamp of an f32 result, then write.
  void write_float() {
    if (instruction_.output_scale != 1.0F) {
      for (uint32_t &bits : result_) bits = as_bits(as_float(bits) * instruction_.output_scale);
    }
    if (instruction_.clamp) {
      for (uint32_t &bits : result_) bits = as_bits(smaller(1.0F, larger(0.0F, as_float(bits))));
    }
    write();
  }

 private:
  const uint32_t *select(const uint32_t *row, int source_index);
  void place(const uint32_t *old);

  Wave &wave_;
  const Instruction &instruction_;
  uint64_t enabled_;
  Row scratch_[3];
  Row result_;
};

}  // namespace flashattn::gcn
