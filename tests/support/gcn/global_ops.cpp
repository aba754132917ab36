// SPDX-License-Identifier: Apache-2.0
// Global, flat and scalar memory instructions (CDNA3 ISA, chapters 8 and 10). Loads read memory at issue and
// deliver when waited for. Flat addresses are taken as global ones: the LDS and scratch apertures are not
// modelled.
#include <cstring>

#include "tests/support/gcn/lanes.h"
#include "tests/support/gcn/opcodes.h"
#include "tests/support/gcn/trap.h"

namespace flashattn::gcn {
namespace {

// Scalar base plus 32-bit lane offset, or a 64-bit lane address.
class Addresses {
 public:
  Addresses(Wave &wave, const Instruction &in, const Operand &lane_part, const Operand &base)
      : offset_(in.offset) {
    if (base.kind == OperandKind::kScalar) {
      base_ = wave.pair(base.first);
      if (lane_part.kind == OperandKind::kVector) low_ = &register_row(wave, lane_part);
      return;
    }
    low_ = &register_row(wave, lane_part);
    high_ = &register_row(wave, lane_part, 1);
  }

  uint64_t operator[](int lane) const {
    uint64_t address = base_ + static_cast<uint64_t>(static_cast<int64_t>(offset_));
    if (low_ != nullptr) address += (*low_)[lane];
    if (high_ != nullptr) address += static_cast<uint64_t>((*high_)[lane]) << 32;
    return address;
  }

 private:
  uint64_t base_ = 0;
  const Row *low_ = nullptr;
  const Row *high_ = nullptr;
  int32_t offset_;
};

void check(Wave &wave, const Instruction &in, uint64_t address, uint32_t bytes, bool is_write) {
  wave.workgroup->memory->check(wave, in, address, bytes, is_write);
  const uint32_t alignment = bytes >= 4 ? 4 : bytes;
  if (address % alignment != 0) trap_at(wave, in, "misaligned global access", address);
}

template <int kRegisters>
void load(Wave &wave, const Instruction &in) {
  const Addresses addresses(wave, in, in.operands[1], in.operands[2]);
  PendingOperation &operation = wave.pending.issue_load(wave, in, in.operands[0]);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((operation.lanes >> lane & 1) == 0) continue;
    check(wave, in, addresses[lane], 4 * kRegisters, false);
    std::array<uint32_t, kRegisters> data;
    std::memcpy(data.data(), reinterpret_cast<const void *>(addresses[lane]), sizeof data);
    for (int k = 0; k < kRegisters; ++k) operation.values[k * kLanes + lane] = data[k];
  }
}

// Less than 32 bits, extended, or into one half of the register (D16).
template <typename T, int kShift, uint32_t kKeep>
void load_small(Wave &wave, const Instruction &in) {
  const Addresses addresses(wave, in, in.operands[1], in.operands[2]);
  PendingOperation &operation = wave.pending.issue_load(wave, in, in.operands[0]);
  operation.keep = kKeep;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((operation.lanes >> lane & 1) == 0) continue;
    check(wave, in, addresses[lane], sizeof(T), false);
    T data;
    std::memcpy(&data, reinterpret_cast<const void *>(addresses[lane]), sizeof data);
    operation.values[lane] = static_cast<uint32_t>(static_cast<int32_t>(data)) << kShift;
  }
}

// The lowest kBytes of the data registers, shifted right by kShift.
template <int kBytes, int kShift>
void store(Wave &wave, const Instruction &in) {
  const Addresses addresses(wave, in, in.operands[0], in.operands[2]);
  const uint64_t lanes = wave.pending.issue(wave, in).lanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    check(wave, in, addresses[lane], kBytes, true);
    std::array<uint32_t, 4> data;
    for (int k = 0; 4 * k < kBytes; ++k) data[k] = register_row(wave, in.operands[1], k)[lane] >> kShift;
    std::memcpy(reinterpret_cast<void *>(addresses[lane]), data.data(), kBytes);
  }
}

// Straight into LDS at M0 + offset + lane * size.
template <int kRegisters>
void load_to_lds(Wave &wave, const Instruction &in) {
  const Addresses addresses(wave, in, in.operands[0], in.operands[1]);
  PendingOperation &operation = wave.pending.issue(wave, in);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((operation.lanes >> lane & 1) == 0) continue;
    check(wave, in, addresses[lane], 4 * kRegisters, false);
    LdsWrite write;
    write.address = wave.s[kM0] + static_cast<uint32_t>(in.offset + lane * 4 * kRegisters);
    write.bytes = 4 * kRegisters;
    std::memcpy(write.data.data(), reinterpret_cast<const void *>(addresses[lane]), write.bytes);
    wave.workgroup->lds.begin_write(wave, in, write.address, write.bytes);
    operation.lds_writes.push_back(write);
  }
}

// Read-modify-write without a returned value; waves run one at a time, so that it is atomic.
template <typename T, typename F>
Execute atomic(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    const Addresses addresses(wave, in, in.operands[0], in.operands[2]);
    const uint64_t lanes = wave.pending.issue(wave, in).lanes;
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      check(wave, in, addresses[lane], sizeof(T), true);
      T old;
      T operand;
      std::memcpy(&old, reinterpret_cast<const void *>(addresses[lane]), sizeof old);
      std::memcpy(&operand, &register_row(wave, in.operands[1])[lane], sizeof operand);
      const T value = f(old, operand);
      std::memcpy(reinterpret_cast<void *>(addresses[lane]), &value, sizeof value);
    }
  };
}

template <int kRegisters>
void scalar_load(Wave &wave, const Instruction &in) {
  const Operand &where = in.operands[2];
  const int64_t offset = where.kind == OperandKind::kConstant
                             ? static_cast<int32_t>(where.value)
                             : static_cast<int64_t>(read_scalar(wave, where));
  const uint64_t address =
      (wave.pair(in.operands[1].first) & ~uint64_t{3}) + static_cast<uint64_t>(offset + in.offset);
  wave.workgroup->memory->check(wave, in, address, 4 * kRegisters, false);
  PendingOperation &operation = wave.pending.issue_load(wave, in, in.operands[0]);
  std::memcpy(operation.values.data(), reinterpret_cast<const void *>(address), 4 * kRegisters);
}

}  // namespace

void add_global_opcodes(OpcodeTable &t) {
  for (const std::string unit : {"global_", "flat_"}) {
    t[unit + "load_dword"] = load<1>;
    t[unit + "load_dwordx2"] = load<2>;
    t[unit + "load_dwordx3"] = load<3>;
    t[unit + "load_dwordx4"] = load<4>;
    t[unit + "load_ubyte"] = load_small<uint8_t, 0, 0>;
    t[unit + "load_sbyte"] = load_small<int8_t, 0, 0>;
    t[unit + "load_ushort"] = load_small<uint16_t, 0, 0>;
    t[unit + "load_sshort"] = load_small<int16_t, 0, 0>;
    t[unit + "load_short_d16"] = load_small<uint16_t, 0, 0xffff0000U>;
    t[unit + "load_short_d16_hi"] = load_small<uint16_t, 16, 0xffffU>;
    t[unit + "load_ubyte_d16"] = load_small<uint8_t, 0, 0xffff0000U>;
    t[unit + "load_ubyte_d16_hi"] = load_small<uint8_t, 16, 0xffffU>;
    t[unit + "store_byte"] = store<1, 0>;
    t[unit + "store_short"] = store<2, 0>;
    t[unit + "store_short_d16_hi"] = store<2, 16>;
    t[unit + "store_dword"] = store<4, 0>;
    t[unit + "store_dwordx2"] = store<8, 0>;
    t[unit + "store_dwordx3"] = store<12, 0>;
    t[unit + "store_dwordx4"] = store<16, 0>;
    t[unit + "atomic_add"] = atomic<uint32_t>([](uint32_t a, uint32_t b) { return a + b; });
    t[unit + "atomic_or"] = atomic<uint32_t>([](uint32_t a, uint32_t b) { return a | b; });
    t[unit + "atomic_umax"] = atomic<uint32_t>([](uint32_t a, uint32_t b) { return a > b ? a : b; });
    t[unit + "atomic_add_f32"] = atomic<float>([](float a, float b) { return a + b; });
  }
  t["global_load_lds_dword"] = load_to_lds<1>;
  t["global_load_lds_dwordx3"] = load_to_lds<3>;  // gfx950
  t["global_load_lds_dwordx4"] = load_to_lds<4>;  // gfx950
  t["s_load_dword"] = scalar_load<1>;
  t["s_load_dwordx2"] = scalar_load<2>;
  t["s_load_dwordx4"] = scalar_load<4>;
  t["s_load_dwordx8"] = scalar_load<8>;
  t["s_load_dwordx16"] = scalar_load<16>;
}

}  // namespace flashattn::gcn
