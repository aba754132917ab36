// SPDX-License-Identifier: Apache-2.0
// Vector operations on 64-bit integers and on f64, in register pairs.
#include <cmath>
#include <cstring>

#include "tests/support/gcn/lanes.h"
#include "tests/support/gcn/opcodes.h"

namespace flashattn::gcn {
namespace {

// The 64 bits of an operand by lane.
class WideSource {
 public:
  WideSource(Wave &wave, const Operand &operand)
      : low_(source_low(wave, operand, low_scratch_)), high_(source(wave, operand, high_scratch_, 1)) {}
  uint64_t operator[](int lane) const { return low_[lane] | static_cast<uint64_t>(high_[lane]) << 32; }

 private:
  Row low_scratch_;
  Row high_scratch_;
  const uint32_t *low_;
  const uint32_t *high_;
};

// f64 with the operand's modifiers.
double as_double(uint64_t bits, const Operand &operand) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  if (operand.absolute) value = std::fabs(value);
  return operand.negate ? -value : value;
}

uint64_t double_bits(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

void write_wide(Wave &wave, const Operand &operand, const std::array<uint64_t, kLanes> &values) {
  Row halves[2];
  for (int lane = 0; lane < kLanes; ++lane) {
    halves[0][lane] = static_cast<uint32_t>(values[lane]);
    halves[1][lane] = static_cast<uint32_t>(values[lane] >> 32);
  }
  for (int k = 0; k < 2; ++k)
    merge_lanes(wave.exec(), halves[k].data(), register_row(wave, operand, k).data());
}

// V_LSHLREV_B64 and its kin: a 32-bit count, then the value.
template <typename F>
Execute shift(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    Row scratch;
    const uint32_t *count = source(wave, in.operands[1], scratch);
    const WideSource value(wave, in.operands[2]);
    std::array<uint64_t, kLanes> result;
    for (int lane = 0; lane < kLanes; ++lane) result[lane] = f(value[lane], count[lane] & 63);
    write_wide(wave, in.operands[0], result);
  };
}

template <typename F>
Execute double_binary(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    const WideSource a(wave, in.operands[1]);
    const WideSource b(wave, in.operands[2]);
    std::array<uint64_t, kLanes> result;
    for (int lane = 0; lane < kLanes; ++lane) {
      result[lane] = double_bits(f(as_double(a[lane], in.operands[1]), as_double(b[lane], in.operands[2])));
    }
    write_wide(wave, in.operands[0], result);
  };
}

// d, carry = a * b + c with 32-bit a and b.
template <bool is_signed>
void multiply_add(Wave &wave, const Instruction &in) {
  Row scratch[2];
  const uint32_t *a = source(wave, in.operands[2], scratch[0]);
  const uint32_t *b = source(wave, in.operands[3], scratch[1]);
  const WideSource c(wave, in.operands[4]);
  std::array<uint64_t, kLanes> result;
  uint64_t carry = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t product = is_signed
                                 ? static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(a[lane])) *
                                                         static_cast<int32_t>(b[lane]))
                                 : static_cast<uint64_t>(a[lane]) * b[lane];
    result[lane] = product + c[lane];
    carry |= static_cast<uint64_t>(result[lane] < product) << lane;
  }
  write_wide(wave, in.operands[0], result);
  wave.set_pair(in.operands[1].first, carry & wave.exec());
}

}  // namespace

void add_wide_opcodes(OpcodeTable &t) {
  t["v_lshlrev_b64"] = shift([](uint64_t value, uint32_t n) { return value << n; });
  t["v_lshrrev_b64"] = shift([](uint64_t value, uint32_t n) { return value >> n; });
  t["v_ashrrev_i64"] = shift(
      [](uint64_t value, uint32_t n) { return static_cast<uint64_t>(static_cast<int64_t>(value) >> n); });
  t["v_mad_u64_u32"] = multiply_add<false>;
  t["v_mad_i64_i32"] = multiply_add<true>;
  t["v_mov_b64"] = [](Wave &wave, const Instruction &in) {
    const WideSource a(wave, in.operands[1]);
    std::array<uint64_t, kLanes> result;
    for (int lane = 0; lane < kLanes; ++lane) result[lane] = a[lane];
    write_wide(wave, in.operands[0], result);
  };
  t["v_lshl_add_u64"] = [](Wave &wave, const Instruction &in) {
    const WideSource a(wave, in.operands[1]);
    Row scratch;
    const uint32_t *count = source(wave, in.operands[2], scratch);
    const WideSource c(wave, in.operands[3]);
    std::array<uint64_t, kLanes> result;
    for (int lane = 0; lane < kLanes; ++lane) result[lane] = (a[lane] << (count[lane] & 7)) + c[lane];
    write_wide(wave, in.operands[0], result);
  };
  t["v_add_f64"] = double_binary([](double a, double b) { return a + b; });
  t["v_mul_f64"] = double_binary([](double a, double b) { return a * b; });
  t["v_max_f64"] = double_binary([](double a, double b) { return std::fmax(a, b); });
  t["v_min_f64"] = double_binary([](double a, double b) { return std::fmin(a, b); });
}

}  // namespace flashattn::gcn
