// SPDX-License-Identifier: Apache-2.0
// Scalar ALU: SOP1, SOP2, SOPC, SOPK (CDNA3 ISA, chapter 5).
#include <algorithm>

#include "tests/support/gcn/bits.h"
#include "tests/support/gcn/lanes.h"
#include "tests/support/gcn/opcodes.h"

namespace flashattn::gcn {
namespace {

// A result and the SCC it leaves.
template <typename T>
struct WithScc {
  T value;
  bool scc;
};

template <typename T>
WithScc<T> nonzero(T value) {
  return {value, value != 0};
}

// d = f(a), SCC as it was.
template <typename F>
Execute move(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    wave.s[in.operands[0].first] = f(read_scalar(wave, in.operands[1]));
  };
}

template <typename F>
Execute move64(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    wave.set_pair(in.operands[0].first, f(read_scalar64(wave, in.operands[1])));
  };
}

// d = f(a) and SCC.
template <typename F>
Execute unary(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    const WithScc<uint32_t> result = f(read_scalar(wave, in.operands[1]));
    wave.s[in.operands[0].first] = result.value;
    wave.scc = result.scc;
  };
}

// d = f(a, b, SCC) without a new SCC.
template <typename F>
Execute keep_scc(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    wave.s[in.operands[0].first] =
        f(read_scalar(wave, in.operands[1]), read_scalar(wave, in.operands[2]), wave.scc);
  };
}

// d = f(a, b, SCC) and SCC.
template <typename F>
Execute binary(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    const WithScc<uint32_t> result =
        f(read_scalar(wave, in.operands[1]), read_scalar(wave, in.operands[2]), wave.scc);
    wave.s[in.operands[0].first] = result.value;
    wave.scc = result.scc;
  };
}

// 64 bits: d = f(a, b) and SCC = d != 0.
template <typename F>
Execute binary64(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    const uint64_t value = f(read_scalar64(wave, in.operands[1]), read_scalar64(wave, in.operands[2]));
    wave.set_pair(in.operands[0].first, value);
    wave.scc = value != 0;
  };
}

// 64 bits by a 32-bit count.
template <typename F>
Execute shift64(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    const uint64_t value = f(read_scalar64(wave, in.operands[1]), read_scalar(wave, in.operands[2]) & 63);
    wave.set_pair(in.operands[0].first, value);
    wave.scc = value != 0;
  };
}

template <typename F>
Execute compare(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    wave.scc = f(read_scalar(wave, in.operands[0]), read_scalar(wave, in.operands[1]));
  };
}

template <typename F>
Execute compare64(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    wave.scc = f(read_scalar64(wave, in.operands[0]), read_scalar64(wave, in.operands[1]));
  };
}

// SOPK compares with a 16-bit constant: sign-extended, or zero-extended for the unsigned ones.
template <typename F>
Execute compare_constant(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    wave.scc = f(wave.s[in.operands[0].first], static_cast<uint16_t>(in.operands[1].value));
  };
}

// EXEC = f(source, EXEC); d = the old EXEC.
template <typename F>
Execute save_exec(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &in) {
    const uint64_t old = wave.exec();
    const uint64_t value = f(read_scalar64(wave, in.operands[1]), old);
    wave.set_pair(in.operands[0].first, old);
    wave.set_pair(kExec, value);
    wave.scc = value != 0;
  };
}

int32_t as_signed(uint32_t value) {
  return static_cast<int32_t>(value);
}
uint32_t sign_extend16(uint32_t value) {
  return static_cast<uint32_t>(static_cast<int32_t>(static_cast<int16_t>(value)));
}

WithScc<uint32_t> add_signed(uint32_t a, uint32_t b) {
  int32_t sum = 0;
  const bool overflow = __builtin_add_overflow(as_signed(a), as_signed(b), &sum);
  return {a + b, overflow};
}

WithScc<uint32_t> shift_and_add(uint32_t a, uint32_t b, int shift) {
  const uint64_t sum = (static_cast<uint64_t>(a) << shift) + b;
  return {static_cast<uint32_t>(sum), sum >> 32 != 0};
}

void add_arithmetic(OpcodeTable &t) {
  t["s_add_i32"] = binary([](uint32_t a, uint32_t b, bool) { return add_signed(a, b); });
  t["s_add_u32"] = binary([](uint32_t a, uint32_t b, bool) { return WithScc<uint32_t>{a + b, a + b < a}; });
  t["s_addc_u32"] = binary([](uint32_t a, uint32_t b, bool carry) {
    const uint64_t sum = static_cast<uint64_t>(a) + b + carry;
    return WithScc<uint32_t>{static_cast<uint32_t>(sum), sum >> 32 != 0};
  });
  t["s_sub_i32"] = binary([](uint32_t a, uint32_t b, bool) {
    int32_t difference = 0;
    const bool overflow = __builtin_sub_overflow(as_signed(a), as_signed(b), &difference);
    return WithScc<uint32_t>{a - b, overflow};
  });
  t["s_sub_u32"] = binary([](uint32_t a, uint32_t b, bool) { return WithScc<uint32_t>{a - b, b > a}; });
  t["s_subb_u32"] = binary([](uint32_t a, uint32_t b, bool borrow) {
    const uint64_t less = static_cast<uint64_t>(b) + borrow;
    return WithScc<uint32_t>{static_cast<uint32_t>(a - less), less > a};
  });
  t["s_mul_i32"] = keep_scc([](uint32_t a, uint32_t b, bool) { return a * b; });
  t["s_mul_hi_u32"] = keep_scc(
      [](uint32_t a, uint32_t b, bool) { return static_cast<uint32_t>(static_cast<uint64_t>(a) * b >> 32); });
  t["s_mul_hi_i32"] = keep_scc([](uint32_t a, uint32_t b, bool) {
    return static_cast<uint32_t>(static_cast<int64_t>(as_signed(a)) * as_signed(b) >> 32);
  });
  t["s_abs_i32"] = unary([](uint32_t a) { return nonzero(as_signed(a) < 0 ? 0U - a : a); });
  t["s_absdiff_i32"] = binary([](uint32_t a, uint32_t b, bool) {
    const uint32_t difference = a - b;
    return nonzero(as_signed(difference) < 0 ? 0U - difference : difference);
  });
  t["s_min_i32"] = binary([](uint32_t a, uint32_t b, bool) {
    return as_signed(a) < as_signed(b) ? WithScc<uint32_t>{a, true} : WithScc<uint32_t>{b, false};
  });
  t["s_max_i32"] = binary([](uint32_t a, uint32_t b, bool) {
    return as_signed(a) > as_signed(b) ? WithScc<uint32_t>{a, true} : WithScc<uint32_t>{b, false};
  });
  t["s_min_u32"] = binary([](uint32_t a, uint32_t b, bool) {
    return a < b ? WithScc<uint32_t>{a, true} : WithScc<uint32_t>{b, false};
  });
  t["s_max_u32"] = binary([](uint32_t a, uint32_t b, bool) {
    return a > b ? WithScc<uint32_t>{a, true} : WithScc<uint32_t>{b, false};
  });
  t["s_lshl1_add_u32"] = binary([](uint32_t a, uint32_t b, bool) { return shift_and_add(a, b, 1); });
  t["s_lshl2_add_u32"] = binary([](uint32_t a, uint32_t b, bool) { return shift_and_add(a, b, 2); });
  t["s_lshl3_add_u32"] = binary([](uint32_t a, uint32_t b, bool) { return shift_and_add(a, b, 3); });
  t["s_lshl4_add_u32"] = binary([](uint32_t a, uint32_t b, bool) { return shift_and_add(a, b, 4); });
}

void add_logic(OpcodeTable &t) {
  t["s_mov_b32"] = move([](uint32_t a) { return a; });
  t["s_brev_b32"] = move([](uint32_t a) { return reverse_bits(a); });
  t["s_ff1_i32_b32"] = move([](uint32_t a) { return trailing_zeros(a); });
  t["s_flbit_i32_b32"] = move([](uint32_t a) { return leading_zeros(a); });
  t["s_sext_i32_i16"] = move([](uint32_t a) { return sign_extend16(a); });
  t["s_sext_i32_i8"] =
      move([](uint32_t a) { return static_cast<uint32_t>(static_cast<int32_t>(static_cast<int8_t>(a))); });
  t["s_not_b32"] = unary([](uint32_t a) { return nonzero(~a); });
  t["s_bcnt1_i32_b32"] = unary([](uint32_t a) { return nonzero<uint32_t>(__builtin_popcount(a)); });
  t["s_and_b32"] = binary([](uint32_t a, uint32_t b, bool) { return nonzero(a & b); });
  t["s_or_b32"] = binary([](uint32_t a, uint32_t b, bool) { return nonzero(a | b); });
  t["s_xor_b32"] = binary([](uint32_t a, uint32_t b, bool) { return nonzero(a ^ b); });
  t["s_andn2_b32"] = binary([](uint32_t a, uint32_t b, bool) { return nonzero(a & ~b); });
  t["s_orn2_b32"] = binary([](uint32_t a, uint32_t b, bool) { return nonzero(a | ~b); });
  t["s_lshl_b32"] = binary([](uint32_t a, uint32_t b, bool) { return nonzero(a << (b & 31)); });
  t["s_lshr_b32"] = binary([](uint32_t a, uint32_t b, bool) { return nonzero(a >> (b & 31)); });
  t["s_ashr_i32"] = binary(
      [](uint32_t a, uint32_t b, bool) { return nonzero(static_cast<uint32_t>(as_signed(a) >> (b & 31))); });
  // S_BFE: offset in bits 4:0, width in bits 22:16 of the second source.
  t["s_bfe_u32"] = binary(
      [](uint32_t a, uint32_t b, bool) { return nonzero(extract_unsigned(a, b & 31, b >> 16 & 127)); });
  t["s_bfe_i32"] =
      binary([](uint32_t a, uint32_t b, bool) { return nonzero(extract_signed(a, b & 31, b >> 16 & 127)); });
  t["s_bfm_b32"] = keep_scc([](uint32_t a, uint32_t b, bool) { return ((1U << (a & 31)) - 1) << (b & 31); });
  t["s_cselect_b32"] = keep_scc([](uint32_t a, uint32_t b, bool scc) { return scc ? a : b; });
  t["s_pack_ll_b32_b16"] = keep_scc([](uint32_t a, uint32_t b, bool) { return (a & 0xffff) | b << 16; });
  t["s_pack_lh_b32_b16"] =
      keep_scc([](uint32_t a, uint32_t b, bool) { return (a & 0xffff) | (b & 0xffff0000U); });
  t["s_pack_hh_b32_b16"] = keep_scc([](uint32_t a, uint32_t b, bool) { return a >> 16 | (b & 0xffff0000U); });
}

void add_logic64(OpcodeTable &t) {
  t["s_mov_b64"] = move64([](uint64_t a) { return a; });
  t["s_ff1_i32_b64"] = [](Wave &wave, const Instruction &in) {
    const uint64_t value = read_scalar64(wave, in.operands[1]);
    wave.s[in.operands[0].first] = value == 0 ? ~0U : static_cast<uint32_t>(__builtin_ctzll(value));
  };
  t["s_not_b64"] = [](Wave &wave, const Instruction &in) {
    const uint64_t value = ~read_scalar64(wave, in.operands[1]);
    wave.set_pair(in.operands[0].first, value);
    wave.scc = value != 0;
  };
  t["s_bcnt1_i32_b64"] = [](Wave &wave, const Instruction &in) {
    const int count = __builtin_popcountll(read_scalar64(wave, in.operands[1]));
    wave.s[in.operands[0].first] = static_cast<uint32_t>(count);
    wave.scc = count != 0;
  };
  t["s_cselect_b64"] = [](Wave &wave, const Instruction &in) {
    wave.set_pair(in.operands[0].first, read_scalar64(wave, in.operands[wave.scc ? 1 : 2]));
  };
  t["s_and_b64"] = binary64([](uint64_t a, uint64_t b) { return a & b; });
  t["s_or_b64"] = binary64([](uint64_t a, uint64_t b) { return a | b; });
  t["s_xor_b64"] = binary64([](uint64_t a, uint64_t b) { return a ^ b; });
  t["s_andn2_b64"] = binary64([](uint64_t a, uint64_t b) { return a & ~b; });
  t["s_orn2_b64"] = binary64([](uint64_t a, uint64_t b) { return a | ~b; });
  t["s_nand_b64"] = binary64([](uint64_t a, uint64_t b) { return ~(a & b); });
  t["s_nor_b64"] = binary64([](uint64_t a, uint64_t b) { return ~(a | b); });
  t["s_xnor_b64"] = binary64([](uint64_t a, uint64_t b) { return ~(a ^ b); });
  t["s_lshl_b64"] = shift64([](uint64_t a, uint32_t n) { return a << n; });
  t["s_lshr_b64"] = shift64([](uint64_t a, uint32_t n) { return a >> n; });
  t["s_ashr_i64"] =
      shift64([](uint64_t a, uint32_t n) { return static_cast<uint64_t>(static_cast<int64_t>(a) >> n); });
  t["s_bfe_u64"] = [](Wave &wave, const Instruction &in) {
    const uint32_t field = read_scalar(wave, in.operands[2]);
    const uint32_t width = field >> 16 & 127;
    uint64_t value = read_scalar64(wave, in.operands[1]) >> (field & 63);
    if (width < 64) value &= (uint64_t{1} << width) - 1;
    wave.set_pair(in.operands[0].first, value);
    wave.scc = value != 0;
  };
  t["s_bfe_i64"] = [](Wave &wave, const Instruction &in) {
    const uint32_t field = read_scalar(wave, in.operands[2]);
    const uint32_t width = std::min(field >> 16 & 127, 64U);
    uint64_t value = read_scalar64(wave, in.operands[1]) >> (field & 63);
    if (width == 0) value = 0;
    if (width > 0 && width < 64)
      value = static_cast<uint64_t>(static_cast<int64_t>(value << (64 - width)) >> (64 - width));
    wave.set_pair(in.operands[0].first, value);
    wave.scc = value != 0;
  };
  t["s_and_saveexec_b64"] = save_exec([](uint64_t source, uint64_t exec) { return source & exec; });
  t["s_or_saveexec_b64"] = save_exec([](uint64_t source, uint64_t exec) { return source | exec; });
  t["s_xor_saveexec_b64"] = save_exec([](uint64_t source, uint64_t exec) { return source ^ exec; });
  t["s_andn2_saveexec_b64"] = save_exec([](uint64_t source, uint64_t exec) { return source & ~exec; });
  t["s_andn1_saveexec_b64"] = save_exec([](uint64_t source, uint64_t exec) { return ~source & exec; });
  t["s_orn2_saveexec_b64"] = save_exec([](uint64_t source, uint64_t exec) { return source | ~exec; });
}

void add_compares(OpcodeTable &t) {
  t["s_cmp_eq_i32"] = t["s_cmp_eq_u32"] = compare([](uint32_t a, uint32_t b) { return a == b; });
  t["s_cmp_lg_i32"] = t["s_cmp_lg_u32"] = compare([](uint32_t a, uint32_t b) { return a != b; });
  t["s_cmp_gt_i32"] = compare([](uint32_t a, uint32_t b) { return as_signed(a) > as_signed(b); });
  t["s_cmp_ge_i32"] = compare([](uint32_t a, uint32_t b) { return as_signed(a) >= as_signed(b); });
  t["s_cmp_lt_i32"] = compare([](uint32_t a, uint32_t b) { return as_signed(a) < as_signed(b); });
  t["s_cmp_le_i32"] = compare([](uint32_t a, uint32_t b) { return as_signed(a) <= as_signed(b); });
  t["s_cmp_gt_u32"] = compare([](uint32_t a, uint32_t b) { return a > b; });
  t["s_cmp_ge_u32"] = compare([](uint32_t a, uint32_t b) { return a >= b; });
  t["s_cmp_lt_u32"] = compare([](uint32_t a, uint32_t b) { return a < b; });
  t["s_cmp_le_u32"] = compare([](uint32_t a, uint32_t b) { return a <= b; });
  t["s_bitcmp0_b32"] = compare([](uint32_t a, uint32_t b) { return (a >> (b & 31) & 1) == 0; });
  t["s_bitcmp1_b32"] = compare([](uint32_t a, uint32_t b) { return (a >> (b & 31) & 1) == 1; });
  t["s_cmp_eq_u64"] = compare64([](uint64_t a, uint64_t b) { return a == b; });
  t["s_cmp_lg_u64"] = compare64([](uint64_t a, uint64_t b) { return a != b; });
  t["s_cmpk_eq_i32"] = compare_constant([](uint32_t a, uint16_t k) { return a == sign_extend16(k); });
  t["s_cmpk_lg_i32"] = compare_constant([](uint32_t a, uint16_t k) { return a != sign_extend16(k); });
  t["s_cmpk_gt_i32"] =
      compare_constant([](uint32_t a, uint16_t k) { return as_signed(a) > static_cast<int16_t>(k); });
  t["s_cmpk_ge_i32"] =
      compare_constant([](uint32_t a, uint16_t k) { return as_signed(a) >= static_cast<int16_t>(k); });
  t["s_cmpk_lt_i32"] =
      compare_constant([](uint32_t a, uint16_t k) { return as_signed(a) < static_cast<int16_t>(k); });
  t["s_cmpk_le_i32"] =
      compare_constant([](uint32_t a, uint16_t k) { return as_signed(a) <= static_cast<int16_t>(k); });
  t["s_cmpk_eq_u32"] = compare_constant([](uint32_t a, uint16_t k) { return a == k; });
  t["s_cmpk_lg_u32"] = compare_constant([](uint32_t a, uint16_t k) { return a != k; });
  t["s_cmpk_gt_u32"] = compare_constant([](uint32_t a, uint16_t k) { return a > k; });
  t["s_cmpk_ge_u32"] = compare_constant([](uint32_t a, uint16_t k) { return a >= k; });
  t["s_cmpk_lt_u32"] = compare_constant([](uint32_t a, uint16_t k) { return a < k; });
  t["s_cmpk_le_u32"] = compare_constant([](uint32_t a, uint16_t k) { return a <= k; });
}

void add_constant_forms(OpcodeTable &t) {
  t["s_movk_i32"] = [](Wave &wave, const Instruction &in) {
    wave.s[in.operands[0].first] = sign_extend16(in.operands[1].value);
  };
  t["s_cmovk_i32"] = [](Wave &wave, const Instruction &in) {
    if (wave.scc) wave.s[in.operands[0].first] = sign_extend16(in.operands[1].value);
  };
  t["s_cmov_b32"] = [](Wave &wave, const Instruction &in) {
    if (wave.scc) wave.s[in.operands[0].first] = read_scalar(wave, in.operands[1]);
  };
  t["s_cmov_b64"] = [](Wave &wave, const Instruction &in) {
    if (wave.scc) wave.set_pair(in.operands[0].first, read_scalar64(wave, in.operands[1]));
  };
  t["s_addk_i32"] = [](Wave &wave, const Instruction &in) {
    uint32_t &d = wave.s[in.operands[0].first];
    const WithScc<uint32_t> sum = add_signed(d, sign_extend16(in.operands[1].value));
    d = sum.value;
    wave.scc = sum.scc;
  };
  t["s_mulk_i32"] = [](Wave &wave, const Instruction &in) {
    wave.s[in.operands[0].first] *= sign_extend16(in.operands[1].value);
  };
  t["s_bitset0_b32"] = [](Wave &wave, const Instruction &in) {
    wave.s[in.operands[0].first] &= ~(1U << (read_scalar(wave, in.operands[1]) & 31));
  };
  t["s_bitset1_b32"] = [](Wave &wave, const Instruction &in) {
    wave.s[in.operands[0].first] |= 1U << (read_scalar(wave, in.operands[1]) & 31);
  };
}

}  // namespace

void add_scalar_opcodes(OpcodeTable &table) {
  add_arithmetic(table);
  add_logic(table);
  add_logic64(table);
  add_compares(table);
  add_constant_forms(table);
}

}  // namespace flashattn::gcn
