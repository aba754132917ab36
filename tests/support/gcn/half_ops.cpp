// SPDX-License-Identifier: Apache-2.0
// f16 vector ALU: one half per lane, the f32 mixes, and 16-bit integers. On gfx9 these write zero to the
// upper half of the destination, except D16 and op_sel forms.
#include <cmath>

#include "tests/support/gcn/alu.h"
#include "tests/support/gcn/opcodes.h"

namespace flashattn::gcn {
namespace {

constexpr uint32_t kHalfSign = 0x8000;

// The half of source k that OP_SEL picks.
uint32_t picked(const Instruction &in, uint32_t value, int k) {
  return (in.op_sel >> k & 1) != 0 ? value >> 16 : value & 0xffff;
}

template <typename F>
Execute half_unary(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    VectorOperation op(wave, in);
    const uint32_t *a = op.floating(1, 0, kHalfSign);
    for (int lane = 0; lane < kLanes; ++lane) op.result()[lane] = float_to_half(f(half_to_float(a[lane])));
    op.write();
  };
}

template <typename F>
Execute half_binary(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    VectorOperation op(wave, in);
    const uint32_t *a = op.floating(1, 0, kHalfSign);
    const uint32_t *b = op.floating(2, 1, kHalfSign);
    for (int lane = 0; lane < kLanes; ++lane) {
      op.result()[lane] =
          float_to_half(f(half_to_float(picked(in, a[lane], 0)), half_to_float(picked(in, b[lane], 1))));
    }
    op.write();
  };
}

template <typename F>
Execute short_binary(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    VectorOperation op(wave, in);
    const uint32_t *a = op.integer(1, 0);
    const uint32_t *b = op.integer(2, 1);
    for (int lane = 0; lane < kLanes; ++lane) {
      op.result()[lane] = f(picked(in, a[lane], 0), picked(in, b[lane], 1)) & 0xffffU;
    }
    op.write();
  };
}

// V_FMA_MIX: each source is an f32, or with OP_SEL_HI the half that OP_SEL picks.
float mix_source(const Instruction &in, uint32_t bits, int k) {
  float value = as_float(bits);
  if (in.has_op_sel_hi && (in.op_sel_hi >> k & 1) != 0) value = half_to_float(picked(in, bits, k));
  const Operand &operand = in.operands[1 + k];
  if (operand.absolute) value = std::fabs(value);
  return operand.negate ? -value : value;
}

enum class MixTo { kFloat, kLow, kHigh };

template <MixTo to>
void fma_mix(Wave &wave, const Instruction &in) {
  VectorOperation op(wave, in);
  const uint32_t *a = op.integer(1, 0);
  const uint32_t *b = op.integer(2, 1);
  const uint32_t *c = op.integer(3, 2);
  const uint32_t *old = register_row(wave, in.operands[0]).data();
  for (int lane = 0; lane < kLanes; ++lane) {
    const float sum =
        std::fma(mix_source(in, a[lane], 0), mix_source(in, b[lane], 1), mix_source(in, c[lane], 2));
    if (to == MixTo::kFloat) {
      op.result()[lane] = as_bits(sum);
    } else if (to == MixTo::kLow) {
      op.result()[lane] = (old[lane] & 0xffff0000U) | float_to_half(sum);
    } else {
      op.result()[lane] = (old[lane] & 0xffffU) | static_cast<uint32_t>(float_to_half(sum)) << 16;
    }
  }
  op.write();
}

}  // namespace

void add_half_opcodes(OpcodeTable &t) {
  t["v_cvt_f16_f32"] = from_float([](float a) -> uint32_t { return float_to_half(a); });
  t["v_cvt_f32_f16"] = [](Wave &wave, const Instruction &in) {
    VectorOperation op(wave, in);
    const uint32_t *a = op.floating(1, 0, kHalfSign);
    for (int lane = 0; lane < kLanes; ++lane) op.result()[lane] = as_bits(half_to_float(a[lane]));
    op.write_float();
  };
  t["v_exp_f16"] = half_unary([](float a) { return std::exp2(a); });
  t["v_rcp_f16"] = half_unary([](float a) { return 1.0F / a; });
  t["v_add_f16"] = half_binary([](float a, float b) { return a + b; });
  t["v_sub_f16"] = half_binary([](float a, float b) { return a - b; });
  t["v_mul_f16"] = half_binary([](float a, float b) { return a * b; });
  t["v_max_f16"] = half_binary([](float a, float b) { return larger(a, b); });
  t["v_min_f16"] = half_binary([](float a, float b) { return smaller(a, b); });
  t["v_pack_b32_f16"] = [](Wave &wave, const Instruction &in) {
    VectorOperation op(wave, in);
    const uint32_t *a = op.floating(1, 0, kHalfSign);
    const uint32_t *b = op.floating(2, 1, kHalfSign);
    for (int lane = 0; lane < kLanes; ++lane) {
      op.result()[lane] = picked(in, a[lane], 0) | picked(in, b[lane], 1) << 16;
    }
    op.write();
  };
  t["v_fma_mix_f32"] = fma_mix<MixTo::kFloat>;
  t["v_fma_mixlo_f16"] = fma_mix<MixTo::kLow>;
  t["v_fma_mixhi_f16"] = fma_mix<MixTo::kHigh>;
  t["v_add_u16"] = short_binary([](uint32_t a, uint32_t b) { return a + b; });
  t["v_sub_u16"] = short_binary([](uint32_t a, uint32_t b) { return a - b; });
  t["v_mul_lo_u16"] = short_binary([](uint32_t a, uint32_t b) { return a * b; });
  t["v_lshlrev_b16"] = short_binary([](uint32_t a, uint32_t b) { return b << (a & 15); });
  t["v_lshrrev_b16"] = short_binary([](uint32_t a, uint32_t b) { return b >> (a & 15); });
  t["v_ashrrev_i16"] = short_binary(
      [](uint32_t a, uint32_t b) { return static_cast<uint32_t>(static_cast<int16_t>(b) >> (a & 15)); });
}

}  // namespace flashattn::gcn
