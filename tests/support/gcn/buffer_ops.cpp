// SPDX-License-Identifier: Apache-2.0
// Raw buffer instructions (CDNA3 ISA, chapter 9): a descriptor of base and size in four scalar registers, no
// structure stride, no swizzle. Loads out of range give 0, stores out of range are dropped; the range
// includes the scalar offset.
#include <cstring>

#include "tests/support/gcn/lanes.h"
#include "tests/support/gcn/opcodes.h"
#include "tests/support/gcn/trap.h"

namespace flashattn::gcn {
namespace {

class Buffer {
 public:
  // Operands: [lane offset,] descriptor, scalar offset, from index `first`.
  Buffer(Wave &wave, const Instruction &in, int first) : instruction_(in) {
    const Operand &lane_offset = in.operands[first];
    const int descriptor = in.operands[first + 1].first;
    base_ = wave.s[descriptor] | static_cast<uint64_t>(wave.s[descriptor + 1] & 0xffff) << 32;
    const uint32_t stride = wave.s[descriptor + 1] >> 16 & 0x3fff;
    if (stride != 0) trap(wave, in, "structured buffers are not modelled");
    size_ = wave.s[descriptor + 2];
    scalar_offset_ = read_scalar(wave, in.operands[first + 2]);
    if (in.offen) lanes_ = &register_row(wave, lane_offset);
  }

  uint64_t offset(int lane) const {
    return static_cast<uint64_t>(lanes_ != nullptr ? (*lanes_)[lane] : 0) +
           static_cast<uint64_t>(instruction_.offset) + scalar_offset_;
  }
  bool holds(uint64_t offset, uint32_t bytes) const { return offset + bytes <= size_; }
  uint64_t address(uint64_t offset) const { return base_ + offset; }

 private:
  const Instruction &instruction_;
  uint64_t base_ = 0;
  uint64_t size_ = 0;
  uint64_t scalar_offset_ = 0;
  const Row *lanes_ = nullptr;
};

template <typename T>
T load_element(Wave &wave, const Instruction &in, const Buffer &buffer, uint64_t offset) {
  T data{};
  if (!buffer.holds(offset, sizeof data)) return data;
  wave.workgroup->memory->check(wave, in, buffer.address(offset), sizeof data, false);
  std::memcpy(&data, reinterpret_cast<const void *>(buffer.address(offset)), sizeof data);
  return data;
}

template <int kRegisters>
void load(Wave &wave, const Instruction &in) {
  if (in.lds) {
    const Buffer buffer(wave, in, 0);
    PendingOperation &operation = wave.pending.issue(wave, in);
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((operation.lanes >> lane & 1) == 0) continue;
      LdsWrite write;
      write.address = wave.s[kM0] + static_cast<uint32_t>(in.offset + lane * 4 * kRegisters);
      write.bytes = 4 * kRegisters;
      for (uint32_t k = 0; k < kRegisters; ++k) {
        write.data[k] = load_element<uint32_t>(wave, in, buffer, buffer.offset(lane) + 4 * k);
      }
      wave.workgroup->lds.begin_write(wave, in, write.address, write.bytes);
      operation.lds_writes.push_back(write);
    }
    return;
  }
  const Buffer buffer(wave, in, 1);
  PendingOperation &operation = wave.pending.issue_load(wave, in, in.operands[0]);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((operation.lanes >> lane & 1) == 0) continue;
    for (uint32_t k = 0; k < kRegisters; ++k) {
      operation.values[k * kLanes + static_cast<uint32_t>(lane)] =
          load_element<uint32_t>(wave, in, buffer, buffer.offset(lane) + 4 * k);
    }
  }
}

template <typename T, int kShift, uint32_t kKeep>
void load_small(Wave &wave, const Instruction &in) {
  const Buffer buffer(wave, in, 1);
  PendingOperation &operation = wave.pending.issue_load(wave, in, in.operands[0]);
  operation.keep = kKeep;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((operation.lanes >> lane & 1) == 0) continue;
    const T data = load_element<T>(wave, in, buffer, buffer.offset(lane));
    operation.values[lane] = static_cast<uint32_t>(static_cast<int32_t>(data)) << kShift;
  }
}

// kRegisters elements of kBytes each, every one checked against the range by itself.
template <int kRegisters, int kBytes, int kShift>
void store(Wave &wave, const Instruction &in) {
  const Buffer buffer(wave, in, 1);
  const uint64_t lanes = wave.pending.issue(wave, in).lanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    for (int k = 0; k < kRegisters; ++k) {
      const uint64_t offset = buffer.offset(lane) + static_cast<uint64_t>(4 * k);
      if (!buffer.holds(offset, kBytes)) continue;
      wave.workgroup->memory->check(wave, in, buffer.address(offset), kBytes, true);
      const uint32_t data = register_row(wave, in.operands[0], k)[lane] >> kShift;
      std::memcpy(reinterpret_cast<void *>(buffer.address(offset)), &data, kBytes);
    }
  }
}

}  // namespace

void add_buffer_opcodes(OpcodeTable &t) {
  t["buffer_load_dword"] = load<1>;
  t["buffer_load_dwordx2"] = load<2>;
  t["buffer_load_dwordx3"] = load<3>;
  t["buffer_load_dwordx4"] = load<4>;
  t["buffer_load_ubyte"] = load_small<uint8_t, 0, 0>;
  t["buffer_load_ushort"] = load_small<uint16_t, 0, 0>;
  t["buffer_load_sshort"] = load_small<int16_t, 0, 0>;
  t["buffer_load_short_d16"] = load_small<uint16_t, 0, 0xffff0000U>;
  t["buffer_load_short_d16_hi"] = load_small<uint16_t, 16, 0xffffU>;
  t["buffer_store_byte"] = store<1, 1, 0>;
  t["buffer_store_short"] = store<1, 2, 0>;
  t["buffer_store_short_d16_hi"] = store<1, 2, 16>;
  t["buffer_store_dword"] = store<1, 4, 0>;
  t["buffer_store_dwordx2"] = store<2, 4, 0>;
  t["buffer_store_dwordx3"] = store<3, 4, 0>;
  t["buffer_store_dwordx4"] = store<4, 4, 0>;
}

}  // namespace flashattn::gcn
