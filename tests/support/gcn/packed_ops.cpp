// SPDX-License-Identifier: Apache-2.0
// Packed math: two f32 in a register pair, two f16 or two 16-bit integers in a register (CDNA3 ISA, VOP3P).
// OP_SEL picks the half of each source for the low result, OP_SEL_HI for the high one.
#include <algorithm>
#include <cmath>

#include "tests/support/gcn/lanes.h"
#include "tests/support/gcn/opcodes.h"

namespace flashattn::gcn {
namespace {

// Both halves by default.
bool picks_high(const Instruction &in, int k, bool high_result) {
  if (!high_result) return (in.op_sel >> k & 1) != 0;
  return !in.has_op_sel_hi || (in.op_sel_hi >> k & 1) != 0;
}

bool negates(const Instruction &in, int k, bool high_result) {
  return ((high_result ? in.neg_hi : in.neg_lo) >> k & 1) != 0;
}

// Register of f32 source k that the low or the high result reads. A constant is the same for both.
const uint32_t *picked_register(Wave &wave, const Instruction &in, int k, bool high_result, Row &scratch) {
  const Operand &operand = in.operands[1 + k];
  const bool pair = is_register_file(operand) || operand.kind == OperandKind::kScalar;
  const uint32_t *row = source(wave, operand, scratch, pair && picks_high(in, k, high_result) ? 1 : 0);
  if (!negates(in, k, high_result)) return row;
  for (int lane = 0; lane < kLanes; ++lane) scratch[lane] = row[lane] ^ 0x80000000U;
  return scratch.data();
}

void write_row(Wave &wave, const Operand &operand, int k, const Row &values) {
  merge_lanes(wave.exec(), values.data(), register_row(wave, operand, k).data());
}

// d[0:1] = f(a, b, c) on f32; kSources says how many there are.
template <int kSources, typename F>
Execute packed_float(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    Row results[2];
    for (int half = 0; half < 2; ++half) {
      Row scratch[3];
      const uint32_t *sources[3] = {scratch[0].data(), scratch[1].data(), scratch[2].data()};
      for (int k = 0; k < kSources; ++k) sources[k] = picked_register(wave, in, k, half == 1, scratch[k]);
      for (int lane = 0; lane < kLanes; ++lane) {
        const float c = kSources == 3 ? as_float(sources[2][lane]) : 0.0F;
        results[half][lane] = as_bits(f(as_float(sources[0][lane]), as_float(sources[1][lane]), c));
      }
    }
    write_row(wave, in.operands[0], 0, results[0]);
    write_row(wave, in.operands[0], 1, results[1]);
  };
}

// 16 bits of source k.
uint32_t picked_half(const Instruction &in, uint32_t value, int k, bool high_result) {
  return picks_high(in, k, high_result) ? value >> 16 : value & 0xffff;
}

// d = {f(..), f(..)} on the 16-bit halves, as bits.
template <int kSources, typename F>
Execute packed_short(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    Row scratch[3];
    const uint32_t *sources[3] = {scratch[0].data(), scratch[1].data(), scratch[2].data()};
    for (int k = 0; k < kSources; ++k) sources[k] = source(wave, in.operands[1 + k], scratch[k]);
    Row result;
    for (int lane = 0; lane < kLanes; ++lane) {
      uint32_t halves[2];
      for (int half = 0; half < 2; ++half) {
        uint32_t values[3] = {0, 0, 0};
        for (int k = 0; k < kSources; ++k) {
          values[k] = picked_half(in, sources[k][lane], k, half == 1);
          if (negates(in, k, half == 1)) values[k] ^= 0x8000;
        }
        halves[half] = f(values[0], values[1], values[2]) & 0xffff;
      }
      result[lane] = halves[0] | halves[1] << 16;
    }
    write_row(wave, in.operands[0], 0, result);
  };
}

template <int kSources, typename F>
Execute packed_half(F function) {
  static const F f = function;
  return packed_short<kSources>([](uint32_t a, uint32_t b, uint32_t c) -> uint32_t {
    return float_to_half(f(half_to_float(a), half_to_float(b), half_to_float(c)));
  });
}

}  // namespace

void add_packed_opcodes(OpcodeTable &t) {
  t["v_pk_add_f32"] = packed_float<2>([](float a, float b, float) { return a + b; });
  t["v_pk_mul_f32"] = packed_float<2>([](float a, float b, float) { return a * b; });
  t["v_pk_fma_f32"] = packed_float<3>([](float a, float b, float c) { return std::fma(a, b, c); });
  // The low result takes its register from source 0, the high one from source 1.
  t["v_pk_mov_b32"] = [](Wave &wave, const Instruction &in) {
    Row results[2];
    for (int half = 0; half < 2; ++half) {
      Row scratch;
      const uint32_t *row =
          source(wave, in.operands[1 + half], scratch, (in.op_sel >> half & 1) != 0 ? 1 : 0);
      std::copy_n(row, kLanes, results[half].begin());
    }
    write_row(wave, in.operands[0], 0, results[0]);
    write_row(wave, in.operands[0], 1, results[1]);
  };
  t["v_pk_add_f16"] = packed_half<2>([](float a, float b, float) { return a + b; });
  t["v_pk_mul_f16"] = packed_half<2>([](float a, float b, float) { return a * b; });
  t["v_pk_fma_f16"] = packed_half<3>([](float a, float b, float c) { return std::fma(a, b, c); });
  t["v_pk_max_f16"] = packed_half<2>([](float a, float b, float) { return larger(a, b); });
  t["v_pk_min_f16"] = packed_half<2>([](float a, float b, float) { return smaller(a, b); });
  t["v_pk_add_u16"] = packed_short<2>([](uint32_t a, uint32_t b, uint32_t) { return a + b; });
  t["v_pk_sub_u16"] = packed_short<2>([](uint32_t a, uint32_t b, uint32_t) { return a - b; });
  t["v_pk_mul_lo_u16"] = packed_short<2>([](uint32_t a, uint32_t b, uint32_t) { return a * b; });
  t["v_pk_lshlrev_b16"] = packed_short<2>([](uint32_t a, uint32_t b, uint32_t) { return b << (a & 15); });
  t["v_pk_lshrrev_b16"] = packed_short<2>([](uint32_t a, uint32_t b, uint32_t) { return b >> (a & 15); });
}

}  // namespace flashattn::gcn
