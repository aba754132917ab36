// SPDX-License-Identifier: Apache-2.0
// f32 vector ALU and its conversions (CDNA3 ISA, chapter 6 and 12).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/gcn/alu.h"
#include "tests/support/gcn/opcodes.h"

namespace flashattn::gcn {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint32_t to_unsigned(float value) {
  if (!(value > 0.0F)) return 0;  // NaN too
  return value >= 4294967296.0F ? ~0U : static_cast<uint32_t>(value);
}

uint32_t to_signed(float value) {
  if (std::isnan(value)) return 0;
  if (value >= 2147483648.0F) return 0x7fffffffU;
  if (value <= -2147483648.0F) return 0x80000000U;
  return static_cast<uint32_t>(static_cast<int32_t>(value));
}

// Toward zero, for V_CVT_PKRTZ.
uint32_t to_half_toward_zero(float value) {
  uint16_t half = float_to_half(value);
  if (std::fabs(half_to_float(half)) > std::fabs(value)) --half;
  return half;
}

// value * 2^exponent, rounded once: in f64 the product is exact.
float times_power_of_two(float value, int32_t exponent) {
  const int64_t clamped = std::clamp(exponent, -400, 400);
  const uint64_t bits = static_cast<uint64_t>(1023 + clamped) << 52;
  double power;
  std::memcpy(&power, &bits, sizeof power);
  return static_cast<float>(value * power);
}

float median(float a, float b, float c) {
  return larger(smaller(a, b), smaller(larger(a, b), c));
}

// V_DIV_SCALE_F32 scales numerator or denominator so that the Newton steps between neither overflow nor lose
// bits, and V_DIV_FMAS_F32 takes the scale out again where VCC says so (CDNA3 ISA). Where the document's
// pseudocode would not divide right (a denominator near overflow scaled up, a factor of 2^32 for a scale of
// 2^64), this follows what makes the compilers' sequence right. Sources: the one to scale, denominator,
// numerator.
struct Scaled {
  float value;
  bool vcc;
};
Scaled divide_scale(float source, float denominator, float numerator) {
  constexpr double kSmallest = std::numeric_limits<float>::min();
  const bool is_denominator = as_bits(source) == as_bits(denominator);
  if (numerator == 0.0F || denominator == 0.0F) return {kNan, false};
  int denominator_exponent = 0;
  int numerator_exponent = 0;
  std::frexp(denominator, &denominator_exponent);
  std::frexp(numerator, &numerator_exponent);
  const double reciprocal = std::fabs(1.0 / denominator);
  const double quotient = std::fabs(static_cast<double>(numerator) / denominator);
  if (numerator_exponent - denominator_exponent >= 96) {
    return {is_denominator ? source * 0x1p64F : source, true};
  }
  if (std::fabs(denominator) < kSmallest) return {source * 0x1p64F, false};
  if (reciprocal < kSmallest && quotient < kSmallest) {
    return {is_denominator ? source * 0x1p-64F : source, true};
  }
  if (reciprocal < kSmallest) return {source * 0x1p-64F, false};
  if (quotient < kSmallest) return {is_denominator ? source : source * 0x1p64F, true};
  // A biased exponent of 23; frexp's is one more than the IEEE one.
  if (numerator_exponent - 1 <= 23 - 127) return {source * 0x1p64F, false};
  return {source, false};
}

float divide_fixup(float quotient, float denominator, float numerator) {
  const float sign = std::signbit(denominator) != std::signbit(numerator) ? -1.0F : 1.0F;
  if (std::isnan(numerator)) return numerator;
  if (std::isnan(denominator)) return denominator;
  if (denominator == 0.0F && numerator == 0.0F) return kNan;
  if (std::isinf(denominator) && std::isinf(numerator)) return kNan;
  if (denominator == 0.0F || std::isinf(numerator)) return sign * kInfinity;
  if (std::isinf(denominator) || numerator == 0.0F) return sign * 0.0F;
  return sign * std::fabs(quotient);
}

void div_scale(Wave &wave, const Instruction &in) {
  VectorOperation op(wave, in);
  const uint32_t *a = op.floating(2, 0);
  const uint32_t *b = op.floating(3, 1);
  const uint32_t *c = op.floating(4, 2);
  uint64_t vcc = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const Scaled scaled = divide_scale(as_float(a[lane]), as_float(b[lane]), as_float(c[lane]));
    op.result()[lane] = as_bits(scaled.value);
    vcc |= static_cast<uint64_t>(scaled.vcc) << lane;
  }
  op.write();
  wave.set_pair(in.operands[1].first, vcc & wave.exec());
}

void div_fmas(Wave &wave, const Instruction &in) {
  VectorOperation op(wave, in);
  const uint32_t *a = op.floating(1, 0);
  const uint32_t *b = op.floating(2, 1);
  const uint32_t *c = op.floating(3, 2);
  for (int lane = 0; lane < kLanes; ++lane) {
    const float sum = std::fma(as_float(a[lane]), as_float(b[lane]), as_float(c[lane]));
    const float scale = std::fabs(as_float(c[lane])) >= 2.0F ? 0x1p64F : 0x1p-64F;
    op.result()[lane] = as_bits((wave.pair(kVcc) >> lane & 1) != 0 ? sum * scale : sum);
  }
  op.write_float();
}

// d = a * b + d.
void fmac(Wave &wave, const Instruction &in) {
  VectorOperation op(wave, in);
  const uint32_t *a = op.floating(1, 0);
  const uint32_t *b = op.floating(2, 1);
  const uint32_t *d = register_row(wave, in.operands[0]).data();
  for (int lane = 0; lane < kLanes; ++lane) {
    op.result()[lane] = as_bits(std::fma(as_float(a[lane]), as_float(b[lane]), as_float(d[lane])));
  }
  op.write_float();
}

void add_arithmetic(OpcodeTable &t) {
  t["v_add_f32"] = float_binary([](float a, float b) { return a + b; });
  t["v_sub_f32"] = float_binary([](float a, float b) { return a - b; });
  t["v_subrev_f32"] = float_binary([](float a, float b) { return b - a; });
  t["v_mul_f32"] = float_binary([](float a, float b) { return a * b; });
  t["v_mul_legacy_f32"] = float_binary([](float a, float b) { return a == 0 || b == 0 ? 0.0F : a * b; });
  // A quiet NaN loses to a number (MODE.ieee is on for kernels; signalling NaNs are not modelled).
  t["v_max_f32"] = float_binary([](float a, float b) { return larger(a, b); });
  t["v_min_f32"] = float_binary([](float a, float b) { return smaller(a, b); });
  t["v_fma_f32"] = float_ternary([](float a, float b, float c) { return std::fma(a, b, c); });
  t["v_mad_f32"] = float_ternary([](float a, float b, float c) { return a * b + c; });
  t["v_fmamk_f32"] = t["v_fmaak_f32"] = t["v_fma_f32"];  // the constant stands where it is used
  t["v_fmac_f32"] = fmac;
  t["v_max3_f32"] = float_ternary([](float a, float b, float c) { return larger(larger(a, b), c); });
  t["v_min3_f32"] = float_ternary([](float a, float b, float c) { return smaller(smaller(a, b), c); });
  t["v_med3_f32"] = float_ternary([](float a, float b, float c) { return median(a, b, c); });
  t["v_ldexp_f32"] = [](Wave &wave, const Instruction &in) {
    VectorOperation op(wave, in);
    const uint32_t *a = op.floating(1, 0);
    const uint32_t *b = op.integer(2, 1);
    for (int lane = 0; lane < kLanes; ++lane) {
      op.result()[lane] = as_bits(times_power_of_two(as_float(a[lane]), static_cast<int32_t>(b[lane])));
    }
    op.write_float();
  };
  t["v_div_scale_f32"] = div_scale;
  t["v_div_fmas_f32"] = div_fmas;
  t["v_div_fixup_f32"] = float_ternary([](float q, float d, float n) { return divide_fixup(q, d, n); });
}

void add_functions(OpcodeTable &t) {
  // The transcendental unit flushes subnormals on both sides; 1 ulp of error is not modelled.
  t["v_exp_f32"] = float_unary([](float a) { return flush_subnormal(std::exp2(flush_subnormal(a))); });
  t["v_log_f32"] = float_unary([](float a) { return std::log2(flush_subnormal(a)); });
  t["v_rcp_f32"] = float_unary([](float a) { return flush_subnormal(1.0F / flush_subnormal(a)); });
  t["v_rcp_iflag_f32"] = t["v_rcp_f32"];
  t["v_rsq_f32"] = float_unary([](float a) { return 1.0F / std::sqrt(flush_subnormal(a)); });
  t["v_sqrt_f32"] = float_unary([](float a) { return std::sqrt(flush_subnormal(a)); });
  // The argument is in revolutions.
  t["v_sin_f32"] = float_unary([](float a) { return std::sin(a * 6.283185307179586F); });
  t["v_cos_f32"] = float_unary([](float a) { return std::cos(a * 6.283185307179586F); });
  t["v_rndne_f32"] = float_unary([](float a) { return std::nearbyint(a); });
  t["v_floor_f32"] = float_unary([](float a) { return std::floor(a); });
  t["v_ceil_f32"] = float_unary([](float a) { return std::ceil(a); });
  t["v_trunc_f32"] = float_unary([](float a) { return std::trunc(a); });
  t["v_fract_f32"] = float_unary([](float a) { return smaller(a - std::floor(a), 0x1.fffffep-1F); });
  t["v_frexp_exp_i32_f32"] = from_float([](float a) -> uint32_t {
    if (!std::isfinite(a)) return 0;
    int exponent = 0;
    std::frexp(a, &exponent);
    return static_cast<uint32_t>(exponent);
  });
  t["v_frexp_mant_f32"] = float_unary([](float a) {
    int exponent = 0;
    return std::isfinite(a) ? std::frexp(a, &exponent) : a;
  });
}

void add_conversions(OpcodeTable &t) {
  t["v_cvt_f32_u32"] = integer_unary([](uint32_t a) { return as_bits(static_cast<float>(a)); });
  t["v_cvt_f32_i32"] =
      integer_unary([](uint32_t a) { return as_bits(static_cast<float>(static_cast<int32_t>(a))); });
  t["v_cvt_f32_ubyte0"] = integer_unary([](uint32_t a) { return as_bits(static_cast<float>(a & 255)); });
  t["v_cvt_f32_ubyte1"] = integer_unary([](uint32_t a) { return as_bits(static_cast<float>(a >> 8 & 255)); });
  t["v_cvt_f32_ubyte2"] =
      integer_unary([](uint32_t a) { return as_bits(static_cast<float>(a >> 16 & 255)); });
  t["v_cvt_f32_ubyte3"] = integer_unary([](uint32_t a) { return as_bits(static_cast<float>(a >> 24)); });
  t["v_cvt_u32_f32"] = from_float([](float a) { return to_unsigned(a); });
  t["v_cvt_i32_f32"] = from_float([](float a) { return to_signed(a); });
  t["v_cvt_pkrtz_f16_f32"] =
      from_floats([](float a, float b) { return to_half_toward_zero(a) | to_half_toward_zero(b) << 16; });
  // gfx950.
  t["v_cvt_pk_bf16_f32"] = from_floats([](float a, float b) {
    return static_cast<uint32_t>(float_to_bf16(a)) | static_cast<uint32_t>(float_to_bf16(b)) << 16;
  });
}

}  // namespace

void add_float_opcodes(OpcodeTable &table) {
  add_arithmetic(table);
  add_functions(table);
  add_conversions(table);
}

}  // namespace flashattn::gcn
