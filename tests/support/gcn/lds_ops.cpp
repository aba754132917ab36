// SPDX-License-Identifier: Apache-2.0
// LDS instructions (CDNA3 ISA, chapter 11). Reads take the value at issue, when the wave's own earlier writes
// have landed, and deliver it when waited for; writes land when waited for.
#include <cstring>

#include "tests/support/gcn/lanes.h"
#include "tests/support/gcn/opcodes.h"

namespace flashattn::gcn {
namespace {

// Where the lanes access LDS.
Row lane_addresses(const Row &registers, uint32_t offset) {
  Row addresses;
  for (int lane = 0; lane < kLanes; ++lane) addresses[lane] = registers[lane] + offset;
  return addresses;
}

void count_conflicts(Wave &wave, const Row &addresses, uint32_t bytes, bool is_read) {
  if (!wave.workgroup->count_bank_conflicts) return;
  wave.workgroup->statistics->bank_conflict_cycles +=
      bank_conflict_cycles(wave.exec(), addresses.data(), bytes, is_read);
}

// kRegisters 32-bit registers per lane from `offset`, into the values of `load` from register `first`.
template <int kRegisters>
void read_lanes(Wave &wave, const Instruction &in, const Row &registers, uint32_t offset,
                PendingOperation &load, int first) {
  const Row addresses = lane_addresses(registers, offset);
  count_conflicts(wave, addresses, 4 * kRegisters, true);
  const Lds &lds = wave.workgroup->lds;
  wave.workgroup->lds.read(wave, in, load.lanes, addresses, 4 * kRegisters);
  uint32_t *values = &load.values[static_cast<size_t>(first) * kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((load.lanes >> lane & 1) == 0) continue;
    std::array<uint32_t, kRegisters> data;
    std::memcpy(data.data(), lds.data() + addresses[lane], sizeof data);
    for (int k = 0; k < kRegisters; ++k) values[k * kLanes + lane] = data[k];
  }
}

template <int kRegisters>
void read(Wave &wave, const Instruction &in) {
  wave.pending.settle_lds_writes(wave);
  const Row addresses = register_row(wave, in.operands[1]);
  PendingOperation &load = wave.pending.issue_load(wave, in, in.operands[0]);
  read_lanes<kRegisters>(wave, in, addresses, static_cast<uint32_t>(in.offset), load, 0);
}

// Two reads per lane; offsets count in elements times kStride.
template <int kRegisters, int kStride>
void read_two(Wave &wave, const Instruction &in) {
  wave.pending.settle_lds_writes(wave);
  const Row addresses = register_row(wave, in.operands[1]);
  PendingOperation &load = wave.pending.issue_load(wave, in, in.operands[0]);
  constexpr uint32_t unit = 4 * kRegisters * kStride;
  read_lanes<kRegisters>(wave, in, addresses, static_cast<uint32_t>(in.offset0) * unit, load, 0);
  read_lanes<kRegisters>(wave, in, addresses, static_cast<uint32_t>(in.offset1) * unit, load, kRegisters);
}

// Less than 32 bits, extended, or into one half of the register (D16).
template <typename T, int kShift, uint32_t kKeep>
void read_small(Wave &wave, const Instruction &in) {
  wave.pending.settle_lds_writes(wave);
  const Row addresses = lane_addresses(register_row(wave, in.operands[1]), static_cast<uint32_t>(in.offset));
  count_conflicts(wave, addresses, sizeof(T), true);
  PendingOperation &load = wave.pending.issue_load(wave, in, in.operands[0]);
  load.keep = kKeep;
  wave.workgroup->lds.read(wave, in, load.lanes, addresses, sizeof(T));
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((load.lanes >> lane & 1) == 0) continue;
    T data;
    std::memcpy(&data, wave.workgroup->lds.data() + addresses[lane], sizeof data);
    load.values[lane] = static_cast<uint32_t>(static_cast<int32_t>(data)) << kShift;
  }
}

// The lowest `bytes` bytes of the operand's registers, shifted right by kShift.
template <int kShift>
void write_lanes(Wave &wave, const Instruction &in, const Operand &data, uint32_t offset, uint32_t bytes,
                 PendingOperation &store) {
  const Row addresses = lane_addresses(register_row(wave, in.operands[0]), offset);
  count_conflicts(wave, addresses, bytes, false);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((store.lanes >> lane & 1) == 0) continue;
    LdsWrite write;
    write.address = addresses[lane];
    write.bytes = bytes;
    for (uint32_t k = 0; 4 * k < bytes; ++k) {
      write.data[k] = register_row(wave, data, static_cast<int>(k))[lane] >> kShift;
    }
    wave.workgroup->lds.begin_write(wave, in, write.address, bytes);
    store.lds_writes.push_back(write);
  }
}

template <uint32_t kBytes, int kShift>
void write(Wave &wave, const Instruction &in) {
  wave.pending.settle_lds_writes(wave);
  PendingOperation &store = wave.pending.issue(wave, in);
  write_lanes<kShift>(wave, in, in.operands[1], static_cast<uint32_t>(in.offset), kBytes, store);
}

template <uint32_t kBytes, int kStride>
void write_two(Wave &wave, const Instruction &in) {
  wave.pending.settle_lds_writes(wave);
  PendingOperation &store = wave.pending.issue(wave, in);
  constexpr uint32_t unit = kBytes * kStride;
  write_lanes<0>(wave, in, in.operands[1], static_cast<uint32_t>(in.offset0) * unit, kBytes, store);
  write_lanes<0>(wave, in, in.operands[2], static_cast<uint32_t>(in.offset1) * unit, kBytes, store);
}

}  // namespace

void add_lds_opcodes(OpcodeTable &t) {
  t["ds_read_b32"] = read<1>;
  t["ds_read_b64"] = read<2>;
  t["ds_read_b96"] = read<3>;
  t["ds_read_b128"] = read<4>;
  t["ds_read_u8"] = read_small<uint8_t, 0, 0>;
  t["ds_read_i8"] = read_small<int8_t, 0, 0>;
  t["ds_read_u16"] = read_small<uint16_t, 0, 0>;
  t["ds_read_i16"] = read_small<int16_t, 0, 0>;
  t["ds_read_u16_d16"] = read_small<uint16_t, 0, 0xffff0000U>;
  t["ds_read_u16_d16_hi"] = read_small<uint16_t, 16, 0xffffU>;
  t["ds_read2_b32"] = read_two<1, 1>;
  t["ds_read2_b64"] = read_two<2, 1>;
  t["ds_read2st64_b32"] = read_two<1, 64>;
  t["ds_read2st64_b64"] = read_two<2, 64>;
  t["ds_write_b8"] = write<1, 0>;
  t["ds_write_b16"] = write<2, 0>;
  t["ds_write_b16_d16_hi"] = write<2, 16>;
  t["ds_write_b32"] = write<4, 0>;
  t["ds_write_b64"] = write<8, 0>;
  t["ds_write_b96"] = write<12, 0>;
  t["ds_write_b128"] = write<16, 0>;
  t["ds_write2_b32"] = write_two<4, 1>;
  t["ds_write2_b64"] = write_two<8, 1>;
  t["ds_write2st64_b32"] = write_two<4, 64>;
  t["ds_write2st64_b64"] = write_two<8, 64>;
}

}  // namespace flashattn::gcn
