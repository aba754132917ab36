// SPDX-License-Identifier: Apache-2.0
// 32-bit integer and bit vector ALU, carries included (CDNA3 ISA, chapters 6 and 12).
#include <algorithm>

#include "tests/support/gcn/alu.h"
#include "tests/support/gcn/bits.h"
#include "tests/support/gcn/opcodes.h"

namespace flashattn::gcn {
namespace {

int32_t as_signed(uint32_t value) {
  return static_cast<int32_t>(value);
}
uint32_t as_unsigned(int64_t value) {
  return static_cast<uint32_t>(value);
}

uint32_t low24(uint32_t value) {
  return value & 0xffffffU;
}
int32_t signed24(uint32_t value) {
  return as_signed(value << 8) >> 8;
}

uint32_t saturate(int64_t value) {
  return as_unsigned(std::min<int64_t>(std::max<int64_t>(value, INT32_MIN), INT32_MAX));
}

int32_t median(int32_t a, int32_t b, int32_t c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

// d = a + b as signed numbers; CLAMP saturates.
template <int kSign>
void add_signed(Wave &wave, const Instruction &in) {
  VectorOperation op(wave, in);
  const uint32_t *a = op.integer(1, 0);
  const uint32_t *b = op.integer(2, 1);
  for (int lane = 0; lane < kLanes; ++lane) {
    const int64_t sum = static_cast<int64_t>(as_signed(a[lane])) + int64_t{kSign} * as_signed(b[lane]);
    op.result()[lane] = in.clamp ? saturate(sum) : as_unsigned(sum);
  }
  op.write();
}

enum class Carry { kAdd, kSubtract, kSubtractReversed };

// d, carry = a +- b (+- carry in). Operands: d, carry out, a, b[, carry in].
template <Carry kind, bool with_carry_in>
void add_with_carry(Wave &wave, const Instruction &in) {
  VectorOperation op(wave, in);
  const uint32_t *a = op.integer(2, 0);
  const uint32_t *b = op.integer(3, 1);
  const uint64_t carry_in = with_carry_in ? read_scalar64(wave, in.operands[4]) : 0;
  uint64_t carry_out = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t carry = carry_in >> lane & 1;
    const uint64_t x = kind == Carry::kSubtractReversed ? b[lane] : a[lane];
    const uint64_t y = kind == Carry::kSubtractReversed ? a[lane] : b[lane];
    const uint64_t value = kind == Carry::kAdd ? x + y + carry : x - y - carry;
    op.result()[lane] = static_cast<uint32_t>(value);
    carry_out |= static_cast<uint64_t>(value >> 32 != 0) << lane;
  }
  op.write();
  wave.set_pair(in.operands[1].first, carry_out & wave.exec());
}

void conditional_mask(Wave &wave, const Instruction &in) {
  VectorOperation op(wave, in);
  const uint32_t *if_zero = op.floating(1, 0);
  const uint32_t *if_one = op.floating(2, 1);
  const uint64_t mask = read_scalar64(wave, in.operands[3]);
  for (int lane = 0; lane < kLanes; ++lane) {
    op.result()[lane] = (mask >> lane & 1) != 0 ? if_one[lane] : if_zero[lane];
  }
  op.write();
}

// Bits of `mask` below this lane, of the low or the high half wave, added to b.
template <int kHalf>
void masked_bit_count(Wave &wave, const Instruction &in) {
  VectorOperation op(wave, in);
  const uint32_t *mask = op.integer(1, 0);
  const uint32_t *b = op.integer(2, 1);
  for (int lane = 0; lane < kLanes; ++lane) {
    const int below = std::min(std::max(lane - 32 * kHalf, 0), 32);
    const uint32_t lower = below == 32 ? ~0U : (1U << below) - 1;
    op.result()[lane] = static_cast<uint32_t>(__builtin_popcount(mask[lane] & lower)) + b[lane];
  }
  op.write();
}

void add_arithmetic(OpcodeTable &t) {
  t["v_add_u32"] = integer_binary([](uint32_t a, uint32_t b) { return a + b; });
  t["v_sub_u32"] = integer_binary([](uint32_t a, uint32_t b) { return a - b; });
  t["v_subrev_u32"] = integer_binary([](uint32_t a, uint32_t b) { return b - a; });
  t["v_add_i32"] = add_signed<1>;
  t["v_sub_i32"] = add_signed<-1>;
  t["v_mul_lo_u32"] = integer_binary([](uint32_t a, uint32_t b) { return a * b; });
  t["v_mul_hi_u32"] = integer_binary(
      [](uint32_t a, uint32_t b) { return static_cast<uint32_t>(static_cast<uint64_t>(a) * b >> 32); });
  t["v_mul_hi_i32"] = integer_binary([](uint32_t a, uint32_t b) {
    return as_unsigned(static_cast<int64_t>(as_signed(a)) * as_signed(b) >> 32);
  });
  t["v_mul_u32_u24"] = integer_binary([](uint32_t a, uint32_t b) { return low24(a) * low24(b); });
  t["v_mul_hi_u32_u24"] = integer_binary([](uint32_t a, uint32_t b) {
    return static_cast<uint32_t>(static_cast<uint64_t>(low24(a)) * low24(b) >> 32);
  });
  t["v_mul_i32_i24"] = integer_binary(
      [](uint32_t a, uint32_t b) { return as_unsigned(static_cast<int64_t>(signed24(a)) * signed24(b)); });
  t["v_mad_u32_u24"] =
      integer_ternary([](uint32_t a, uint32_t b, uint32_t c) { return low24(a) * low24(b) + c; });
  t["v_mad_i32_i24"] = integer_ternary([](uint32_t a, uint32_t b, uint32_t c) {
    return as_unsigned(static_cast<int64_t>(signed24(a)) * signed24(b)) + c;
  });
  t["v_mad_u32_u16"] =
      integer_ternary([](uint32_t a, uint32_t b, uint32_t c) { return (a & 0xffff) * (b & 0xffff) + c; });
  t["v_min_u32"] = integer_binary([](uint32_t a, uint32_t b) { return std::min(a, b); });
  t["v_max_u32"] = integer_binary([](uint32_t a, uint32_t b) { return std::max(a, b); });
  t["v_min_i32"] = integer_binary(
      [](uint32_t a, uint32_t b) { return as_unsigned(std::min(as_signed(a), as_signed(b))); });
  t["v_max_i32"] = integer_binary(
      [](uint32_t a, uint32_t b) { return as_unsigned(std::max(as_signed(a), as_signed(b))); });
  t["v_min3_i32"] = integer_ternary([](uint32_t a, uint32_t b, uint32_t c) {
    return as_unsigned(std::min({as_signed(a), as_signed(b), as_signed(c)}));
  });
  t["v_max3_i32"] = integer_ternary([](uint32_t a, uint32_t b, uint32_t c) {
    return as_unsigned(std::max({as_signed(a), as_signed(b), as_signed(c)}));
  });
  t["v_min3_u32"] = integer_ternary([](uint32_t a, uint32_t b, uint32_t c) { return std::min({a, b, c}); });
  t["v_max3_u32"] = integer_ternary([](uint32_t a, uint32_t b, uint32_t c) { return std::max({a, b, c}); });
  t["v_med3_i32"] = integer_ternary([](uint32_t a, uint32_t b, uint32_t c) {
    return as_unsigned(median(as_signed(a), as_signed(b), as_signed(c)));
  });
  t["v_add3_u32"] = integer_ternary([](uint32_t a, uint32_t b, uint32_t c) { return a + b + c; });
  t["v_add_co_u32"] = add_with_carry<Carry::kAdd, false>;
  t["v_sub_co_u32"] = add_with_carry<Carry::kSubtract, false>;
  t["v_subrev_co_u32"] = add_with_carry<Carry::kSubtractReversed, false>;
  t["v_addc_co_u32"] = add_with_carry<Carry::kAdd, true>;
  t["v_subb_co_u32"] = add_with_carry<Carry::kSubtract, true>;
  t["v_subbrev_co_u32"] = add_with_carry<Carry::kSubtractReversed, true>;
}

void add_bits(OpcodeTable &t) {
  t["v_mov_b32"] = integer_unary([](uint32_t a) { return a; });
  t["v_not_b32"] = integer_unary([](uint32_t a) { return ~a; });
  t["v_bfrev_b32"] = integer_unary([](uint32_t a) { return reverse_bits(a); });
  t["v_ffbh_u32"] = integer_unary([](uint32_t a) { return leading_zeros(a); });
  t["v_ffbl_b32"] = integer_unary([](uint32_t a) { return trailing_zeros(a); });
  t["v_and_b32"] = integer_binary([](uint32_t a, uint32_t b) { return a & b; });
  t["v_or_b32"] = integer_binary([](uint32_t a, uint32_t b) { return a | b; });
  t["v_xor_b32"] = integer_binary([](uint32_t a, uint32_t b) { return a ^ b; });
  t["v_lshlrev_b32"] = integer_binary([](uint32_t a, uint32_t b) { return b << (a & 31); });
  t["v_lshrrev_b32"] = integer_binary([](uint32_t a, uint32_t b) { return b >> (a & 31); });
  t["v_ashrrev_i32"] =
      integer_binary([](uint32_t a, uint32_t b) { return static_cast<uint32_t>(as_signed(b) >> (a & 31)); });
  t["v_bfm_b32"] = integer_binary([](uint32_t a, uint32_t b) { return ((1U << (a & 31)) - 1) << (b & 31); });
  t["v_bcnt_u32_b32"] =
      integer_binary([](uint32_t a, uint32_t b) { return static_cast<uint32_t>(__builtin_popcount(a)) + b; });
  t["v_bfe_u32"] =
      integer_ternary([](uint32_t a, uint32_t b, uint32_t c) { return extract_unsigned(a, b & 31, c & 31); });
  t["v_bfe_i32"] =
      integer_ternary([](uint32_t a, uint32_t b, uint32_t c) { return extract_signed(a, b & 31, c & 31); });
  t["v_bfi_b32"] = integer_ternary([](uint32_t a, uint32_t b, uint32_t c) { return (a & b) | (~a & c); });
  t["v_perm_b32"] =
      integer_ternary([](uint32_t a, uint32_t b, uint32_t c) { return permute_bytes(a, b, c); });
  t["v_lshl_add_u32"] =
      integer_ternary([](uint32_t a, uint32_t b, uint32_t c) { return (a << (b & 31)) + c; });
  t["v_add_lshl_u32"] =
      integer_ternary([](uint32_t a, uint32_t b, uint32_t c) { return (a + b) << (c & 31); });
  t["v_lshl_or_b32"] =
      integer_ternary([](uint32_t a, uint32_t b, uint32_t c) { return (a << (b & 31)) | c; });
  t["v_and_or_b32"] = integer_ternary([](uint32_t a, uint32_t b, uint32_t c) { return (a & b) | c; });
  t["v_or3_b32"] = integer_ternary([](uint32_t a, uint32_t b, uint32_t c) { return a | b | c; });
  t["v_xad_u32"] = integer_ternary([](uint32_t a, uint32_t b, uint32_t c) { return (a ^ b) + c; });
  t["v_alignbit_b32"] = integer_ternary([](uint32_t a, uint32_t b, uint32_t c) {
    return static_cast<uint32_t>((static_cast<uint64_t>(a) << 32 | b) >> (c & 31));
  });
  t["v_alignbyte_b32"] = integer_ternary([](uint32_t a, uint32_t b, uint32_t c) {
    return static_cast<uint32_t>((static_cast<uint64_t>(a) << 32 | b) >> (8 * (c & 3)));
  });
  t["v_cndmask_b32"] = conditional_mask;
  t["v_mbcnt_lo_u32_b32"] = masked_bit_count<0>;
  t["v_mbcnt_hi_u32_b32"] = masked_bit_count<1>;
  t["v_accvgpr_read_b32"] = t["v_accvgpr_write_b32"] = t["v_accvgpr_mov_b32"] = t["v_mov_b32"];
}

}  // namespace

void add_integer_opcodes(OpcodeTable &table) {
  add_arithmetic(table);
  add_bits(table);
}

}  // namespace flashattn::gcn
