// SPDX-License-Identifier: Apache-2.0
// Moves between lanes: readlane, permute, swizzle, permlane swap.
#include <utility>

#include "tests/support/gcn/lanes.h"
#include "tests/support/gcn/opcodes.h"
#include "tests/support/gcn/trap.h"

namespace flashattn::gcn {
namespace {

// The first active lane, or lane 0 when none is.
void read_first_lane(Wave &wave, const Instruction &in) {
  const uint64_t exec = wave.exec();
  const int lane = exec == 0 ? 0 : __builtin_ctzll(exec);
  wave.s[in.operands[0].first] = register_row(wave, in.operands[1])[lane];
}

void read_lane(Wave &wave, const Instruction &in) {
  wave.s[in.operands[0].first] = register_row(wave, in.operands[1])[read_scalar(wave, in.operands[2]) & 63];
}

void write_lane(Wave &wave, const Instruction &in) {
  register_row(wave, in.operands[0])[read_scalar(wave, in.operands[2]) & 63] =
      read_scalar(wave, in.operands[1]);
}

// DS_BPERMUTE and its kin go through the LDS unit without touching LDS: their result waits for lgkmcnt.
// source_of(lane) is where the lane reads; an inactive source gives 0.
template <typename SourceOf>
void gather(Wave &wave, const Instruction &in, const Row &data, SourceOf source_of) {
  const uint64_t exec = wave.exec();
  PendingOperation &load = wave.pending.issue_load(wave, in, in.operands[0]);
  for (int lane = 0; lane < kLanes; ++lane) {
    const int from = source_of(lane);
    load.values[lane] = (exec >> from & 1) != 0 ? data[from] : 0;
  }
}

void backward_permute(Wave &wave, const Instruction &in) {
  const Row &address = register_row(wave, in.operands[1]);
  gather(wave, in, register_row(wave, in.operands[2]), [&](int lane) {
    return static_cast<int>((address[lane] + static_cast<uint32_t>(in.offset)) / 4 % kLanes);
  });
}

// Each active lane sends its value to a lane; of several senders the highest wins.
void permute(Wave &wave, const Instruction &in) {
  const Row &address = register_row(wave, in.operands[1]);
  const Row &data = register_row(wave, in.operands[2]);
  PendingOperation &load = wave.pending.issue_load(wave, in, in.operands[0]);
  std::fill(load.values.begin(), load.values.end(), 0);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((wave.exec() >> lane & 1) == 0) continue;
    load.values[(address[lane] + static_cast<uint32_t>(in.offset)) / 4 % kLanes] = data[lane];
  }
}

// The offset is a pattern: bit 15 set, a quad permutation; else and-, or- and xor-masks within 32 lanes.
void swizzle(Wave &wave, const Instruction &in) {
  const uint32_t pattern = in.simm16;
  gather(wave, in, register_row(wave, in.operands[1]), [pattern](int lane) {
    if ((pattern & 0x8000) != 0) return (lane & ~3) | static_cast<int>(pattern >> (2 * (lane & 3)) & 3);
    const uint32_t within = ((lane & 31U & pattern) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31);
    return (lane & 32) | static_cast<int>(within);
  });
}

// gfx950: the odd groups of `kGroup` lanes of the first register change places with the even ones of the
// second.
template <int kGroup>
void swap_groups(Wave &wave, const Instruction &in) {
  Row &a = register_row(wave, in.operands[0]);
  Row &b = register_row(wave, in.operands[1]);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((lane & kGroup) != 0) std::swap(a[lane], b[lane ^ kGroup]);
  }
}

}  // namespace

void add_lane_opcodes(OpcodeTable &t) {
  t["v_readfirstlane_b32"] = read_first_lane;
  t["v_readlane_b32"] = read_lane;
  t["v_writelane_b32"] = write_lane;
  t["ds_bpermute_b32"] = backward_permute;
  t["ds_permute_b32"] = permute;
  t["ds_swizzle_b32"] = swizzle;
  t["v_permlane16_swap_b32"] = swap_groups<16>;
  t["v_permlane32_swap_b32"] = swap_groups<32>;
}

}  // namespace flashattn::gcn
