// SPDX-License-Identifier: Apache-2.0
// One decoded gfx9 instruction. Names and fields follow the CDNA3 ISA document, chapters 5 to 12.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace flashattn::gcn {

struct Wave;
struct Instruction;
using Execute = void (*)(Wave &, const Instruction &);

// Scalar register numbers with a name of their own (CDNA3 ISA, table of SSRC codes).
inline constexpr int kVcc = 106;
inline constexpr int kM0 = 124;
inline constexpr int kExec = 126;
inline constexpr int kScalarRegisters = 128;
inline constexpr int kVectorRegisters = 256;
inline constexpr int kLanes = 64;

enum class OperandKind : uint8_t { kNone, kScalar, kVector, kAccumulator, kConstant, kStatus, kOff };
enum class Status : uint8_t { kScc, kVccz, kExecz };

struct Operand {
  OperandKind kind = OperandKind::kNone;
  Status status = Status::kScc;  // kStatus
  bool negate = false;           // float modifiers of the VOP3 encoding
  bool absolute = false;
  uint16_t first = 0;    // first register
  uint16_t count = 1;    // registers
  uint32_t value = 0;    // kConstant as a 32-bit operand sees it
  uint64_t value64 = 0;  // kConstant as a 64-bit operand sees it: sign-extended, or the f64
};

// What a memory instruction counts on and how its result arrives.
enum class Memory : uint8_t {
  kNone,
  kVectorLoad,   // vmcnt
  kVectorStore,  // vmcnt
  kLoadToLds,    // vmcnt
  kFlat,         // vmcnt and lgkmcnt
  kLds,          // lgkmcnt, in order
  kScalarLoad,   // lgkmcnt, out of order
};

// One select of an SDWA operand: which part of the register, sign-extended or not.
struct SubDword {
  uint8_t shift = 0;
  uint8_t width = 32;
  bool sign_extend = false;
};

struct Instruction {
  Execute execute = nullptr;  // null: unknown, stops the machine with its name
  uint64_t address = 0;
  uint64_t next = 0;
  int32_t branch = -1;  // index of the target instruction
  uint16_t simm16 = 0;  // low half of the first encoding word
  Memory memory = Memory::kNone;
  bool writes_exec = false;  // V_CMPX

  // Every register the operands name, as bit sets, for the check against loads that are still under way.
  std::array<uint64_t, 4> vectors{};
  std::array<uint64_t, 4> accumulators{};
  std::array<uint64_t, 2> scalars{};

  std::array<Operand, 6> operands;
  int operand_count = 0;

  int32_t offset = 0;   // bytes
  int32_t offset0 = 0;  // units of the access, ds_read2 and its kin
  int32_t offset1 = 0;
  bool offen = false;
  bool lds = false;

  bool clamp = false;
  float output_scale = 1.0F;  // OMOD: mul:2, mul:4, div:2
  uint8_t op_sel = 0;
  uint8_t op_sel_hi = 0;
  bool has_op_sel_hi = false;
  uint8_t neg_lo = 0;
  uint8_t neg_hi = 0;

  bool dpp = false;
  uint16_t dpp_control = 0;
  uint8_t row_mask = 15;
  uint8_t bank_mask = 15;
  bool bound_control = false;

  bool sdwa = false;
  SubDword source_select[2];
  SubDword destination_select;
  bool destination_preserve = false;
  bool destination_sign = false;

  std::string mnemonic;  // without the encoding suffix
  std::string text;      // as disassembled
};

}  // namespace flashattn::gcn
