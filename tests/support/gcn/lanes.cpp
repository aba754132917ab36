// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gcn/lanes.h"

namespace flashattn::gcn {
namespace {

struct Source {
  int lane;
  bool valid;
};

// Where `lane` reads under a DPP control word (CDNA3 ISA, "DPP control").
Source dpp_source(uint32_t control, int lane) {
  const int row = lane & ~15;
  const int column = lane & 15;
  const int n = static_cast<int>(control & 15);
  if (control < 0x100) return {(lane & ~3) | static_cast<int>(control >> (2 * (lane & 3)) & 3), true};
  if (control < 0x110) return {lane + n, column + n < 16};              // row_shl
  if (control < 0x120) return {lane - n, column >= n};                  // row_shr
  if (control < 0x130) return {row | ((column - n) & 15), true};        // row_ror
  if (control == 0x130) return {lane + 1, lane < 63};                   // wave_shl
  if (control == 0x134) return {(lane + 1) & 63, true};                 // wave_rol
  if (control == 0x138) return {lane - 1, lane > 0};                    // wave_shr
  if (control == 0x13c) return {(lane - 1) & 63, true};                 // wave_ror
  if (control == 0x140) return {row | (15 - column), true};             // row_mirror
  if (control == 0x141) return {(lane & ~7) | (7 - (lane & 7)), true};  // row_half_mirror
  if (control == 0x142) return {row - 1, lane >= 16};                   // row_bcast:15
  if (control == 0x143) return {31, lane >= 32};                        // row_bcast:31
  return {row | n, true};                                               // row_newbcast
}

}  // namespace

void apply_dpp(Wave &wave, const Instruction &instruction, uint32_t *row, uint64_t *enabled) {
  const uint64_t exec = wave.exec();
  Row from;
  std::memcpy(from.data(), row, sizeof from);
  for (int lane = 0; lane < kLanes; ++lane) {
    const Source origin = dpp_source(instruction.dpp_control, lane);
    const bool selected =
        (instruction.row_mask >> (lane / 16) & 1) != 0 && (instruction.bank_mask >> (lane / 4 % 4) & 1) != 0;
    const bool valid = origin.valid && (exec >> origin.lane & 1) != 0;
    row[lane] = valid ? from[origin.lane] : 0;
    if (!selected || (!valid && !instruction.bound_control)) *enabled &= ~(uint64_t{1} << lane);
  }
}

const uint32_t *VectorOperation::select(const uint32_t *row, int source_index) {
  uint32_t *own = scratch_[source_index].data();
  if (own != row) std::memcpy(own, row, sizeof scratch_[source_index]);
  if (instruction_.dpp && source_index == 0) apply_dpp(wave_, instruction_, own, &enabled_);
  if (instruction_.sdwa && source_index < 2) select_part(instruction_.source_select[source_index], own);
  return own;
}

void VectorOperation::place(const uint32_t *old) {
  const SubDword &to = instruction_.destination_select;
  if (to.width == 32) return;
  const uint32_t mask = (1U << to.width) - 1;
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint32_t value = result_[lane] & mask;
    uint32_t rest = instruction_.destination_preserve ? old[lane] & ~(mask << to.shift) : 0;
    const bool negative = (value >> (to.width - 1) & 1) != 0;
    if (instruction_.destination_sign && negative) rest |= ~0U << to.shift << (to.width - 1);
    result_[lane] = value << to.shift | rest;
  }
}

}  // namespace flashattn::gcn
