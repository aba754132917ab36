// SPDX-License-Identifier: Apache-2.0
// Vector compares: one bit per active lane into a scalar pair (CDNA3 ISA, VOPC). V_CMPX also writes EXEC.
#include <cmath>
#include <cstring>

#include "tests/support/gcn/lanes.h"
#include "tests/support/gcn/opcodes.h"

namespace flashattn::gcn {
namespace {

template <typename T>
T lane_value(uint32_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The destination pair gets `bits`; EXEC too for the CMPX forms.
void write_mask(Wave &wave, const Instruction &in, uint64_t bits) {
  bits &= wave.exec();
  wave.set_pair(in.operands[0].first, bits);
  if (in.writes_exec) wave.set_pair(kExec, bits);
}

template <typename T, typename F>
Execute compare(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    VectorOperation op(wave, in);
    constexpr bool is_float = std::is_same_v<T, float>;
    const uint32_t *a = is_float ? op.floating(1, 0) : op.integer(1, 0);
    const uint32_t *b = is_float ? op.floating(2, 1) : op.integer(2, 1);
    uint64_t bits = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      bits |= static_cast<uint64_t>(f(lane_value<T>(a[lane]), lane_value<T>(b[lane]))) << lane;
    }
    write_mask(wave, in, bits);
  };
}

// 16-bit integers and halves: the low half of each lane.
template <typename T, typename F>
Execute compare_short(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    VectorOperation op(wave, in);
    constexpr bool is_float = std::is_same_v<T, float>;
    const uint32_t *a = is_float ? op.floating(1, 0, 0x8000) : op.integer(1, 0);
    const uint32_t *b = is_float ? op.floating(2, 1, 0x8000) : op.integer(2, 1);
    uint64_t bits = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      bool holds = false;
      if constexpr (is_float) {
        holds = f(half_to_float(a[lane]), half_to_float(b[lane]));
      } else {
        holds = f(static_cast<T>(a[lane]), static_cast<T>(b[lane]));
      }
      bits |= static_cast<uint64_t>(holds) << lane;
    }
    write_mask(wave, in, bits);
  };
}

template <typename T, typename F>
Execute compare_wide(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    Row scratch[4];
    const uint32_t *a_low = source_low(wave, in.operands[1], scratch[0]);
    const uint32_t *a_high = source(wave, in.operands[1], scratch[1], 1);
    const uint32_t *b_low = source_low(wave, in.operands[2], scratch[2]);
    const uint32_t *b_high = source(wave, in.operands[2], scratch[3], 1);
    uint64_t bits = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      const T a = static_cast<T>(a_low[lane] | static_cast<uint64_t>(a_high[lane]) << 32);
      const T b = static_cast<T>(b_low[lane] | static_cast<uint64_t>(b_high[lane]) << 32);
      bits |= static_cast<uint64_t>(f(a, b)) << lane;
    }
    write_mask(wave, in, bits);
  };
}

// V_CMP_CLASS_F32: bit of the mask for a's class: sNaN, qNaN, -inf, -normal, -subnormal, -0, +0, ..., +inf.
int class_of(uint32_t bits) {
  const uint32_t exponent = bits >> 23 & 255;
  const uint32_t fraction = bits & 0x7fffff;
  const bool negative = bits >> 31 != 0;
  if (exponent == 255 && fraction != 0) return fraction >> 22 != 0 ? 1 : 0;
  if (exponent == 255) return negative ? 2 : 9;
  if (exponent != 0) return negative ? 3 : 8;
  if (fraction != 0) return negative ? 4 : 7;
  return negative ? 5 : 6;
}

void compare_class(Wave &wave, const Instruction &in) {
  VectorOperation op(wave, in);
  const uint32_t *a = op.floating(1, 0);
  const uint32_t *mask = op.integer(2, 1);
  uint64_t bits = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    bits |= static_cast<uint64_t>(mask[lane] >> class_of(a[lane]) & 1) << lane;
  }
  write_mask(wave, in, bits);
}

// Adds v_cmp_<name> and v_cmpx_<name>.
void add(OpcodeTable &t, const std::string &name, Execute execute) {
  t["v_cmp_" + name] = execute;
  t["v_cmpx_" + name] = execute;
}

// lt, eq, le, gt, ne, ge with `make` turning a predicate of two T into an instruction.
template <typename T, typename Make>
void add_orders(OpcodeTable &t, const std::string &type, Make make) {
  add(t, "lt_" + type, make([](T a, T b) { return a < b; }));
  add(t, "eq_" + type, make([](T a, T b) { return a == b; }));
  add(t, "le_" + type, make([](T a, T b) { return a <= b; }));
  add(t, "gt_" + type, make([](T a, T b) { return a > b; }));
  add(t, "ge_" + type, make([](T a, T b) { return a >= b; }));
  add(t, "ne_" + type, make([](T a, T b) { return a != b; }));
}

// The f32 and f16 predicates; the n-forms are true for unordered operands.
template <typename Make>
void add_float_orders(OpcodeTable &t, const std::string &type, Make make) {
  add_orders<float>(t, type, make);
  add(t, "lg_" + type, make([](float a, float b) { return a < b || a > b; }));
  add(t, "o_" + type, make([](float a, float b) { return !std::isnan(a) && !std::isnan(b); }));
  add(t, "u_" + type, make([](float a, float b) { return std::isnan(a) || std::isnan(b); }));
  add(t, "nge_" + type, make([](float a, float b) { return !(a >= b); }));
  add(t, "nlg_" + type, make([](float a, float b) { return !(a < b || a > b); }));
  add(t, "ngt_" + type, make([](float a, float b) { return !(a > b); }));
  add(t, "nle_" + type, make([](float a, float b) { return !(a <= b); }));
  add(t, "neq_" + type, make([](float a, float b) { return !(a == b); }));
  add(t, "nlt_" + type, make([](float a, float b) { return !(a < b); }));
}

}  // namespace

void add_compare_opcodes(OpcodeTable &t) {
  add_orders<int32_t>(t, "i32", [](auto f) { return compare<int32_t>(f); });
  add_orders<uint32_t>(t, "u32", [](auto f) { return compare<uint32_t>(f); });
  add_orders<int16_t>(t, "i16", [](auto f) { return compare_short<int16_t>(f); });
  add_orders<uint16_t>(t, "u16", [](auto f) { return compare_short<uint16_t>(f); });
  add_orders<int64_t>(t, "i64", [](auto f) { return compare_wide<int64_t>(f); });
  add_orders<uint64_t>(t, "u64", [](auto f) { return compare_wide<uint64_t>(f); });
  add_float_orders(t, "f32", [](auto f) { return compare<float>(f); });
  add_float_orders(t, "f16", [](auto f) { return compare_short<float>(f); });
  add(t, "class_f32", compare_class);
}

}  // namespace flashattn::gcn
