// SPDX-License-Identifier: Apache-2.0
// Each vector ALU instruction against cases worked out by hand from its description in the CDNA3 ISA
// document.
#include <doctest/doctest.h>

#include <limits>

#include "tests/support/gcn/testing.h"

namespace flashattn::gcn {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr uint32_t kNan = 0x7fc00000U;
constexpr uint32_t kMinusOne = 0xffffffffU;

// One instruction, and tuples of v2, v3, v4 and the v10 they give; each tuple is one lane.
struct Case {
  const char *text;
  std::vector<std::array<uint32_t, 4>> lanes;
};

// f16 bits.
constexpr uint32_t kHalfOne = 0x3c00;
constexpr uint32_t kHalfTwo = 0x4000;
constexpr uint32_t kHalfThree = 0x4200;
constexpr uint32_t kHalfMinusTwo = 0xc000;

const std::vector<Case> kCases = {
    // f32
    {"v_add_f32 v10, v2, v3", {{f32(1.5F), f32(2), 0, f32(3.5F)}, {f32(kInf), f32(-kInf), 0, kNan}}},
    {"v_add_f32 v10, -v2, |v3|", {{f32(1.5F), f32(-2), 0, f32(0.5F)}}},
    {"v_add_f32_e64 v10, v2, v3 clamp", {{f32(0.75F), f32(2), 0, f32(1)}, {f32(-3), f32(1), 0, f32(0)}}},
    {"v_add_f32_e64 v10, v2, v3 mul:4", {{f32(0.75F), f32(2), 0, f32(11)}}},
    {"v_add_f32_e64 v10, v2, v3 div:2", {{f32(0.5F), f32(2), 0, f32(1.25F)}}},
    {"v_add_f32 v10, 2.0, v3", {{0, f32(-0.5F), 0, f32(1.5F)}}},
    {"v_add_f32 v10, s8, v3", {{0, f32(-0.5F), 0, f32(6.5F)}}},  // s8 = 7.0
    {"v_sub_f32 v10, v2, v3", {{f32(1.5F), f32(2), 0, f32(-0.5F)}}},
    {"v_subrev_f32 v10, v2, v3", {{f32(1.5F), f32(2), 0, f32(0.5F)}}},
    {"v_mul_f32 v10, v2, v3", {{f32(-1.5F), f32(2), 0, f32(-3)}, {0x00000001, f32(1), 0, 0x00000001}}},
    {"v_max_f32 v10, v2, v3", {{f32(-1), f32(2), 0, f32(2)}, {kNan, f32(2), 0, f32(2)}}},
    {"v_min_f32 v10, v2, v3", {{f32(-1), f32(2), 0, f32(-1)}, {f32(3), kNan, 0, f32(3)}}},
    {"v_fma_f32 v10, v2, v3, v4",
     {{f32(2), f32(3), f32(4), f32(10)},
      // (1 + 2^-12)^2 - 1: the product is not rounded before the sum.
      {f32(1.000244140625F), f32(1.000244140625F), f32(-1), f32(0x1.0008p-11F)}}},
    {"v_fma_f32 v10, -v2, |v3|, v4", {{f32(2), f32(-3), f32(4), f32(-2)}}},
    {"v_mov_b32 v10, v4\n v_fmac_f32 v10, v2, v3", {{f32(2), f32(3), f32(4), f32(10)}}},
    {"v_fmamk_f32 v10, v2, 0x40400000, v3", {{f32(2), f32(5), 0, f32(11)}}},
    {"v_fmaak_f32 v10, v2, v3, 0x40400000", {{f32(2), f32(5), 0, f32(13)}}},
    {"v_max3_f32 v10, v2, v3, v4", {{f32(1), f32(-2), f32(3), f32(3)}, {f32(5), f32(-2), f32(3), f32(5)}}},
    {"v_min3_f32 v10, v2, v3, v4", {{f32(1), f32(-2), f32(3), f32(-2)}}},
    {"v_med3_f32 v10, v2, v3, v4",
     {{f32(1), f32(-2), f32(3), f32(1)},
      {f32(4), f32(-2), f32(3), f32(3)},
      {f32(-3), f32(-2), f32(3), f32(-2)}}},
    {"v_ldexp_f32 v10, v2, v3", {{f32(1.5F), 3, 0, f32(12)}, {f32(1.5F), kMinusOne, 0, f32(0.75F)}}},
    {"v_exp_f32 v10, v2", {{f32(3), 0, 0, f32(8)}, {f32(-kInf), 0, 0, 0}, {f32(-140), 0, 0, 0}}},
    {"v_log_f32 v10, v2", {{f32(8), 0, 0, f32(3)}, {0, 0, 0, f32(-kInf)}}},
    {"v_rcp_f32 v10, v2", {{f32(4), 0, 0, f32(0.25F)}, {0x80000000U, 0, 0, f32(-kInf)}}},
    {"v_rsq_f32 v10, v2", {{f32(4), 0, 0, f32(0.5F)}}},
    {"v_sqrt_f32 v10, v2", {{f32(9), 0, 0, f32(3)}}},
    {"v_rndne_f32 v10, v2", {{f32(2.5F), 0, 0, f32(2)}, {f32(3.5F), 0, 0, f32(4)}}},
    {"v_floor_f32 v10, v2", {{f32(-2.5F), 0, 0, f32(-3)}}},
    {"v_ceil_f32 v10, v2", {{f32(-2.5F), 0, 0, f32(-2)}}},
    {"v_trunc_f32 v10, v2", {{f32(-2.5F), 0, 0, f32(-2)}}},
    {"v_fract_f32 v10, v2", {{f32(-2.25F), 0, 0, f32(0.75F)}}},
    {"v_frexp_exp_i32_f32 v10, v2", {{f32(8), 0, 0, 4}, {f32(0.25F), 0, 0, kMinusOne}}},
    {"v_frexp_mant_f32 v10, v2", {{f32(6), 0, 0, f32(0.75F)}}},
    // Division: n / d by the sequence compilers emit is tested below; here the special cases.
    {"v_div_fixup_f32 v10, v2, v3, v4",
     {{f32(2), f32(3), f32(-6), f32(-2)},
      {f32(2), 0, f32(1), f32(kInf)},
      {f32(2), f32(kInf), f32(-1), 0x80000000U},
      {f32(2), 0, 0, kNan}}},
    {"s_mov_b64 vcc, 2\n v_div_fmas_f32 v10, v2, v3, v4",
     {{f32(2), f32(3), f32(4), f32(10)}, {f32(2), f32(3), f32(4), f32(0x1.4p67F)}}},
    // conversions
    {"v_cvt_f32_u32 v10, v2", {{kMinusOne, 0, 0, f32(4294967296.0F)}, {7, 0, 0, f32(7)}}},
    {"v_cvt_f32_i32 v10, v2", {{kMinusOne, 0, 0, f32(-1)}}},
    {"v_cvt_u32_f32 v10, v2", {{f32(7.9F), 0, 0, 7}, {f32(-3), 0, 0, 0}, {f32(1e10F), 0, 0, kMinusOne}}},
    {"v_cvt_i32_f32 v10, v2",
     {{f32(-7.9F), 0, 0, static_cast<uint32_t>(-7)}, {f32(-1e10F), 0, 0, 0x80000000U}, {kNan, 0, 0, 0}}},
    {"v_cvt_f32_ubyte2 v10, v2", {{0x00c80000, 0, 0, f32(200)}}},
    {"v_cvt_f16_f32 v10, v2",
     {{f32(1), 0, 0, kHalfOne},
      {f32(65520), 0, 0, 0x7c00},
      {f32(1.00048828125F), 0, 0, kHalfOne},
      {f32(0x1p-24F), 0, 0, 1}}},
    {"v_cvt_f32_f16 v10, v2", {{kHalfMinusTwo, 0, 0, f32(-2)}, {1, 0, 0, f32(0x1p-24F)}}},
    {"v_cvt_pkrtz_f16_f32 v10, v2, v3",
     {{f32(1.0009F), f32(-1.0009F), 0, 0xbc003c00U}, {f32(2), f32(65519), 0, 0x7bff4000U}}},
    // f16
    {"v_add_f16 v10, v2, v3", {{kHalfOne, kHalfTwo, 0, kHalfThree}}},
    {"v_add_f16 v10, 1.0, v3", {{0, kHalfTwo, 0, kHalfThree}}},
    {"v_mul_f16 v10, v2, -v3", {{kHalfOne, kHalfTwo, 0, kHalfMinusTwo}}},
    {"v_max_f16 v10, v2, v3", {{kHalfMinusTwo, kHalfOne, 0, kHalfOne}}},
    {"v_pack_b32_f16 v10, v2, v3", {{0xaaaa3c00U, 0xbbbb4000U, 0, 0x40003c00U}}},
    {"v_pack_b32_f16 v10, v2, v3 op_sel:[1,0,0]", {{0xaaaa3c00U, 0xbbbb4000U, 0, 0x4000aaaaU}}},
    {"v_fma_mix_f32 v10, v2, v3, v4 op_sel:[1,0,0] op_sel_hi:[1,0,0]",
     {{kHalfThree << 16, f32(2), f32(1), f32(7)}}},
    {"v_fma_mixlo_f16 v10, v2, v3, v4", {{f32(1), f32(2), f32(1), 0xdddd0000U | kHalfThree}}},
    {"v_fma_mixhi_f16 v10, v2, v3, v4", {{f32(1), f32(2), f32(1), kHalfThree << 16 | 0xddddU}}},
    {"v_add_u16 v10, v2, v3", {{0x1ffff, 2, 0, 1}}},
    {"v_lshlrev_b16 v10, v2, v3", {{4, 0xfff, 0, 0xfff0}}},
    {"v_lshrrev_b16 v10, v2, v3", {{4, 0x1abcd, 0, 0xabc}}},
    {"v_ashrrev_i16 v10, v2, v3", {{4, 0x8000, 0, 0xf800}}},
    // packed
    {"v_pk_add_f16 v10, v2, v3", {{kHalfOne | kHalfTwo << 16, kHalfTwo | kHalfOne << 16, 0, 0x42004200U}}},
    {"v_pk_mul_f16 v10, v2, v3 op_sel_hi:[1,0]",
     {{kHalfOne | kHalfTwo << 16, kHalfOne | kHalfThree << 16, 0, kHalfOne | kHalfTwo << 16}}},
    {"v_pk_fma_f16 v10, v2, v3, v4 neg_lo:[0,0,1]",
     {{kHalfOne | kHalfOne << 16, kHalfThree | kHalfOne << 16, kHalfOne | kHalfOne << 16, 0x40004000U}}},
    {"v_pk_max_f16 v10, v2, v3", {{kHalfOne | kHalfTwo << 16, kHalfTwo | kHalfOne << 16, 0, 0x40004000U}}},
    {"v_pk_add_u16 v10, v2, v3", {{0x0001ffffU, 0x00020001U, 0, 0x00030000U}}},
    // 32-bit integers
    {"v_add_u32 v10, v2, v3", {{kMinusOne, 3, 0, 2}}},
    {"v_sub_u32 v10, v2, v3", {{1, 3, 0, 0xfffffffeU}}},
    {"v_subrev_u32 v10, v2, v3", {{1, 3, 0, 2}}},
    {"v_add_i32 v10, v2, v3 clamp",
     {{0x7fffffff, 1, 0, 0x7fffffff}, {0x80000000U, kMinusOne, 0, 0x80000000U}}},
    {"v_sub_i32 v10, v2, v3 clamp", {{0x80000000U, 1, 0, 0x80000000U}, {5, 7, 0, 0xfffffffeU}}},
    {"v_mul_lo_u32 v10, v2, v3", {{0x10001, 0x10001, 0, 0x20001}}},
    {"v_mul_hi_u32 v10, v2, v3", {{kMinusOne, kMinusOne, 0, 0xfffffffeU}}},
    {"v_mul_hi_i32 v10, v2, v3", {{kMinusOne, 5, 0, kMinusOne}}},
    {"v_mul_u32_u24 v10, v2, v3", {{0xff000003U, 0xff000005U, 0, 15}}},
    {"v_mul_hi_u32_u24 v10, v2, v3", {{0xff800000U, 0xff000800U, 0, 4}}},
    {"v_mul_i32_i24 v10, v2, v3", {{0x00ffffff, 5, 0, static_cast<uint32_t>(-5)}}},
    {"v_mad_u32_u24 v10, v2, v3, v4", {{0xff000003U, 5, 4, 19}}},
    {"v_mad_i32_i24 v10, v2, v3, v4", {{0x00ffffff, 5, 4, kMinusOne}}},
    {"v_min_i32 v10, v2, v3", {{kMinusOne, 1, 0, kMinusOne}}},
    {"v_max_i32 v10, v2, v3", {{kMinusOne, 1, 0, 1}}},
    {"v_min_u32 v10, v2, v3", {{kMinusOne, 1, 0, 1}}},
    {"v_max_u32 v10, v2, v3", {{kMinusOne, 1, 0, kMinusOne}}},
    {"v_max3_i32 v10, v2, v3, v4", {{kMinusOne, 1, 7, 7}}},
    {"v_min3_i32 v10, v2, v3, v4", {{kMinusOne, 1, 7, kMinusOne}}},
    {"v_med3_i32 v10, v2, v3, v4", {{kMinusOne, 9, 7, 7}}},
    {"v_add3_u32 v10, v2, v3, v4", {{1, 2, 3, 6}}},
    // bits
    {"v_mov_b32 v10, v2", {{5, 0, 0, 5}}},
    {"v_mov_b32 v10, -4", {{0, 0, 0, 0xfffffffcU}}},
    {"v_mov_b32 v10, 0.5", {{0, 0, 0, f32(0.5F)}}},
    {"v_mov_b32 v10, 0x12345678", {{0, 0, 0, 0x12345678}}},
    {"v_not_b32 v10, v2", {{5, 0, 0, 0xfffffffaU}}},
    {"v_bfrev_b32 v10, v2", {{5, 0, 0, 0xa0000000U}}},
    {"v_ffbh_u32 v10, v2", {{5, 0, 0, 29}, {0, 0, 0, kMinusOne}}},
    {"v_ffbl_b32 v10, v2", {{8, 0, 0, 3}}},
    {"v_and_b32 v10, v2, v3", {{12, 10, 0, 8}}},
    {"v_or_b32 v10, v2, v3", {{12, 10, 0, 14}}},
    {"v_xor_b32 v10, v2, v3", {{12, 10, 0, 6}}},
    {"v_lshlrev_b32 v10, v2, v3", {{4, 3, 0, 48}, {36, 3, 0, 48}}},
    {"v_lshrrev_b32 v10, v2, v3", {{4, 0x80000000U, 0, 0x08000000}}},
    {"v_ashrrev_i32 v10, v2, v3", {{4, 0x80000000U, 0, 0xf8000000U}}},
    {"v_bfm_b32 v10, v2, v3", {{3, 4, 0, 0x70}}},
    {"v_bcnt_u32_b32 v10, v2, v3", {{0xff, 3, 0, 11}}},
    {"v_bfe_u32 v10, v2, v3, v4", {{0xabcd, 4, 8, 0xbc}, {0xabcd, 4, 0, 0}}},
    {"v_bfe_i32 v10, v2, v3, v4", {{0xabcd, 4, 8, 0xffffffbcU}, {0xf0000000U, 28, 8, kMinusOne}}},
    {"v_bfi_b32 v10, v2, v3, v4", {{0xff00, 0x1234, 0xabcd, 0x12cd}}},
    {"v_perm_b32 v10, v2, v3, v4",
     {{0x44434241, 0x34333231, 0x07050301, 0x44423432}, {0x80000000U, 0x34333231, 0x0c0d0b08, 0x00ffff00}}},
    {"v_lshl_add_u32 v10, v2, v3, v4", {{3, 2, 5, 17}}},
    {"v_add_lshl_u32 v10, v2, v3, v4", {{3, 2, 5, 160}}},
    {"v_lshl_or_b32 v10, v2, v3, v4", {{3, 2, 5, 13}}},
    {"v_and_or_b32 v10, v2, v3, v4", {{12, 10, 1, 9}}},
    {"v_or3_b32 v10, v2, v3, v4", {{1, 2, 4, 7}}},
    {"v_xad_u32 v10, v2, v3, v4", {{12, 10, 4, 10}}},
    {"v_alignbit_b32 v10, v2, v3, v4", {{0x12345678, 0x9abcdef0U, 8, 0x789abcde}}},
    {"v_alignbyte_b32 v10, v2, v3, v4", {{0x12345678, 0x9abcdef0U, 1, 0x789abcde}}},
    {"s_mov_b64 vcc, 2\n v_cndmask_b32 v10, v2, v3, vcc", {{5, 7, 0, 5}, {5, 7, 0, 7}}},
    {"v_mbcnt_lo_u32_b32 v10, v2, v3", {{kMinusOne, 5, 0, 5}, {kMinusOne, 5, 0, 6}, {2, 5, 0, 6}}},
    {"v_accvgpr_write_b32 a3, v2\n s_nop 1\n v_accvgpr_read_b32 v10, a3", {{77, 0, 0, 77}}},
    // 64 bits, low half
    {"v_mov_b32 v20, v3\n v_mov_b32 v21, v4\n v_lshlrev_b64 v[10:11], v2, v[20:21]",
     {{4, 0xf0000001U, 2, 0x10}}},
    {"v_mov_b32 v20, v3\n v_mov_b32 v21, v4\n v_lshrrev_b64 v[10:11], v2, v[20:21]",
     {{4, 0x11, 2, 0x20000001}}},
    {"v_mov_b32 v20, v3\n v_mov_b32 v21, v4\n v_ashrrev_i64 v[10:11], v2, v[20:21]",
     {{36, 0, 0x80000000U, 0xf8000000U}}},
    {"v_mad_u64_u32 v[10:11], vcc, v2, v3, 5", {{kMinusOne, 2, 0, 3}}},
    {"v_mad_i64_i32 v[10:11], vcc, v2, v3, 5", {{kMinusOne, 2, 0, 3}}},
    {"v_lshl_add_u64 v[10:11], v[2:3], 3, v[4:5]", {{0x20000001, 0, 7, 15}}},
    {"v_mov_b64 v[10:11], v[2:3]", {{5, 6, 0, 5}}},
    // carries
    {"v_add_co_u32 v11, vcc, v2, v3\n v_addc_co_u32 v10, vcc, 0, v4, vcc",
     {{kMinusOne, 1, 7, 8}, {1, 1, 7, 7}}},
    {"v_sub_co_u32 v11, vcc, v2, v3\n v_subb_co_u32 v10, vcc, v4, v5, vcc", {{1, 2, 7, 6}, {2, 1, 7, 7}}},
    // SDWA and DPP
    {"v_cvt_f32_f16_sdwa v10, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1",
     {{kHalfThree << 16, 0, 0, f32(3)}}},
    {"v_add_u32_sdwa v10, v2, sext(v3) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:WORD_0",
     {{0x00001200, 0x0000ffff, 0, 0x11}}},
    {"v_add_u32_sdwa v10, v2, v3 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD src1_sel:DWORD",
     {{1, 2, 0, 0x0003ddddU}}},
};

Row column_of(const Case &c, size_t column) {
  std::vector<uint32_t> values;
  for (const auto &lane : c.lanes) values.push_back(lane[column]);
  return lanes_of(values);
}

TEST_CASE("vector instructions give what the ISA document says") {
  std::vector<Snippet> snippets;
  for (size_t i = 0; i < kCases.size(); ++i) snippets.push_back({"case" + std::to_string(i), kCases[i].text});
  const Snippets program(snippets);
  for (size_t i = 0; i < kCases.size(); ++i) {
    const Case &c = kCases[i];
    CAPTURE(std::string(c.text));
    const SnippetResult result =
        program.run(snippets[i].name, {column_of(c, 0), column_of(c, 1), column_of(c, 2)}, {f32(7.0F)});
    for (size_t lane = 0; lane < c.lanes.size(); ++lane) {
      CAPTURE(lane);
      if (c.lanes[lane][3] == kNan) {
        CHECK(std::isnan(as_float(result.v[0][lane])));
      } else {
        CHECK_EQ(result.v[0][lane], c.lanes[lane][3]);
      }
    }
  }
}

TEST_CASE("64-bit results fill both registers") {
  const Snippets program({{"shift", "v_lshlrev_b64 v[10:11], 4, v[2:3]"},
                          {"mad", "v_mad_i64_i32 v[10:11], s[20:21], v2, v3, v[4:5]"},
                          {"addf64", "v_add_f64 v[10:11], v[2:3], 1.0"},
                          {"pk", "v_pk_fma_f32 v[10:11], v[2:3], v[4:5], v[6:7] op_sel_hi:[1,0,1]"},
                          {"pkmov", "v_pk_mov_b32 v[10:11], v[2:3], v[4:5] op_sel:[1,0]"}});
  const auto row = [](uint32_t x) { return lanes_of({x}); };
  SnippetResult r = program.run("shift", {row(0xf0000001U), row(2)}, {});
  CHECK_EQ(r.v[0][63], 0x10);
  CHECK_EQ(r.v[1][63], 0x2f);
  r = program.run("mad", {row(kMinusOne), row(5), row(2), row(0)}, {});
  CHECK_EQ(r.v[0][0], static_cast<uint32_t>(-3));
  CHECK_EQ(r.v[1][0], kMinusOne);
  r = program.run("addf64", {row(0), row(0x40000000)}, {});  // 2.0 + 1.0
  CHECK_EQ(r.v[1][0], 0x40080000);
  // (2, 3) * (5, 5) + (1, 2): the high result reads the low register of the second source.
  r = program.run("pk", {row(f32(2)), row(f32(3)), row(f32(5)), row(f32(7)), row(f32(1)), row(f32(2))}, {});
  CHECK_EQ(r.v[0][0], f32(11));
  CHECK_EQ(r.v[1][0], f32(17));
  r = program.run("pkmov", {row(2), row(3), row(4), row(5)}, {});
  CHECK_EQ(r.v[0][0], 3);
  CHECK_EQ(r.v[1][0], 4);
}

TEST_CASE("the division sequence of compilers is within half an ulp") {
  const Snippets program(std::vector<Snippet>{{"divide", R"(
      v_div_scale_f32 v20, s[30:31], v3, v3, v2
      v_div_scale_f32 v21, vcc, v2, v3, v2
      v_rcp_f32 v22, v20
      v_fma_f32 v23, -v20, v22, 1.0
      v_fma_f32 v22, v23, v22, v22
      v_mul_f32 v24, v21, v22
      v_fma_f32 v25, -v20, v24, v21
      v_fma_f32 v24, v25, v22, v24
      v_fma_f32 v25, -v20, v24, v21
      v_div_fmas_f32 v25, v25, v22, v24
      v_div_fixup_f32 v10, v25, v3, v2)"}});
  const std::vector<std::pair<float, float>> cases = {
      {1, 3}, {-2, 7},          {1e38F, 1e-3F}, {1e-38F, 3}, {3e38F, 2.5F}, {5, 0},
      {0, 0}, {1e-40F, 1e-42F}, {7, 1e38F},     {1, 3e38F},  {kInf, 2}};
  std::vector<uint32_t> numerators;
  std::vector<uint32_t> denominators;
  for (const auto &c : cases) {
    numerators.push_back(f32(c.first));
    denominators.push_back(f32(c.second));
  }
  const SnippetResult result = program.run("divide", {lanes_of(numerators), lanes_of(denominators)}, {});
  for (size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(cases[i].first);
    CAPTURE(cases[i].second);
    const float expected = cases[i].first / cases[i].second;
    if (std::isnan(expected)) {
      CHECK(std::isnan(as_float(result.v[0][i])));
    } else {
      CHECK_EQ(as_float(result.v[0][i]), expected);
    }
  }
}

// Predicates on (1, 2), (2, 2), (3, 2), (NaN, 2) as a mask of four lanes, lane 0 lowest.
TEST_CASE("float compares, ordered and unordered") {
  const std::vector<std::pair<const char *, uint32_t>> expected = {
      {"lt", 0b0001},  {"eq", 0b0010},  {"le", 0b0011},  {"gt", 0b0100},  {"lg", 0b0101},
      {"ge", 0b0110},  {"o", 0b0111},   {"u", 0b1000},   {"nge", 0b1001}, {"nlg", 0b1010},
      {"ngt", 0b1011}, {"nle", 0b1100}, {"neq", 0b1101}, {"nlt", 0b1110}};
  std::vector<Snippet> snippets;
  for (const auto &e : expected) {
    snippets.push_back({e.first, std::string("v_cmp_") + e.first + "_f32 s[20:21], v2, v3"});
  }
  const Snippets program(snippets);
  for (const auto &e : expected) {
    CAPTURE(e.first);
    const SnippetResult r =
        program.run(e.first, {lanes_of({f32(1), f32(2), f32(3), kNan}), lanes_of({f32(2)})}, {});
    CHECK_EQ(r.s[0] & 15, e.second);
  }
}

TEST_CASE("integer compares honour sign and width, and only active lanes get a bit") {
  const Snippets program({{"i32", "v_cmp_lt_i32 s[20:21], v2, v3"},
                          {"u32", "v_cmp_lt_u32 s[20:21], v2, v3"},
                          {"i64", "v_cmp_lt_i64 s[20:21], v[2:3], v[4:5]"},
                          {"u64", "v_cmp_ge_u64 s[20:21], v[2:3], v[4:5]"},
                          {"i16", "v_cmp_gt_i16 s[20:21], v2, v3"},
                          {"active", "s_mov_b64 exec, 6\n v_cmp_eq_u32 s[20:21], v2, v2"},
                          {"cmpx", "v_cmpx_eq_u32 s[20:21], v2, v3\n v_mov_b32 v10, 1"},
                          {"class", "v_cmp_class_f32 s[20:21], v2, v3"}});
  const auto row = [](uint32_t x) { return lanes_of({x}); };
  CHECK_EQ(program.run("i32", {row(kMinusOne), row(1)}, {}).s[1], kMinusOne);
  CHECK_EQ(program.run("u32", {row(kMinusOne), row(1)}, {}).s[1], 0);
  CHECK_EQ(program.run("i64", {row(0), row(kMinusOne), row(0), row(0)}, {}).s[0], kMinusOne);
  CHECK_EQ(program.run("u64", {row(0), row(kMinusOne), row(5), row(0)}, {}).s[0], kMinusOne);
  CHECK_EQ(program.run("i16", {row(0x10001), row(0xffff)}, {}).s[0], kMinusOne);
  CHECK_EQ(program.run("active", {row(1)}, {}).s[0], 6);
  const SnippetResult r = program.run("cmpx", {lanes_of({1, 2, 1}), lanes_of({1})}, {});
  CHECK_EQ(r.s[0], 0xfffffffdU);
  CHECK_EQ(r.v[0][0], 1);
  CHECK_EQ(r.v[0][1], 0xddddddddU);
  // +inf is class 9, -0 class 5, subnormal 7, NaN 1.
  const Row values = lanes_of({f32(kInf), 0x80000000U, 1, kNan, f32(1)});
  CHECK_EQ(program.run("class", {values, row(1U << 9 | 1U << 5 | 1U << 1)}, {}).s[0] & 31, 0b01011);
}

TEST_CASE("inactive lanes keep their registers") {
  const Snippets program(std::vector<Snippet>{{"masked", "s_mov_b64 exec, 5\n v_mov_b32 v10, 1"}});
  const SnippetResult r = program.run("masked", {}, {});
  CHECK_EQ(r.v[0][0], 1);
  CHECK_EQ(r.v[0][1], 0xddddddddU);
  CHECK_EQ(r.v[0][2], 1);
}

TEST_CASE("moves between lanes") {
  Row numbers;
  for (uint32_t lane = 0; lane < kLanes; ++lane) numbers[lane] = lane;
  const Snippets program({
      {"first", "s_mov_b64 exec, 0x30\n v_readfirstlane_b32 s20, v2"},
      {"lane", "v_readlane_b32 s20, v2, s8"},
      {"write", "v_writelane_b32 v10, s8, 9"},
      {"shr", "v_mov_b32_dpp v10, v2 row_shr:1 row_mask:0xf bank_mask:0xf"},
      {"shr0", "v_mov_b32_dpp v10, v2 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0"},
      {"quad", "v_mov_b32_dpp v10, v2 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf"},
      {"ror", "v_mov_b32_dpp v10, v2 row_ror:4 row_mask:0xf bank_mask:0xf"},
      {"bcast", "v_mov_b32_dpp v10, v2 row_bcast:15 row_mask:0xa bank_mask:0xf"},
      {"mirror", "v_mov_b32_dpp v10, v2 row_mirror row_mask:0xf bank_mask:0xf"},
      {"bpermute", "v_xor_b32 v9, 0x80, v8\n ds_bpermute_b32 v10, v9, v2\n s_waitcnt lgkmcnt(0)"},
      {"permute", "v_lshlrev_b32 v9, 2, v3\n ds_permute_b32 v10, v9, v2\n s_waitcnt lgkmcnt(0)"},
      {"swizzle", "ds_swizzle_b32 v10, v2 offset:swizzle(SWAP,16)\n s_waitcnt lgkmcnt(0)"},
      {"swizzlequad", "ds_swizzle_b32 v10, v2 offset:swizzle(QUAD_PERM,1,0,3,2)\n s_waitcnt lgkmcnt(0)"},
  });
  CHECK_EQ(program.run("first", {numbers}, {}).s[0], 4);
  CHECK_EQ(program.run("lane", {numbers}, {37}).s[0], 37);
  CHECK_EQ(program.run("write", {numbers}, {37}).v[0][9], 37);
  CHECK_EQ(program.run("shr", {numbers}, {}).v[0][17], 16);
  CHECK_EQ(program.run("shr", {numbers}, {}).v[0][16], 0xddddddddU);
  CHECK_EQ(program.run("shr0", {numbers}, {}).v[0][16], 0);
  CHECK_EQ(program.run("quad", {numbers}, {}).v[0][5], 6);
  CHECK_EQ(program.run("ror", {numbers}, {}).v[0][18], 30);
  CHECK_EQ(program.run("bcast", {numbers}, {}).v[0][20], 15);
  CHECK_EQ(program.run("bcast", {numbers}, {}).v[0][40], 0xddddddddU);
  CHECK_EQ(program.run("mirror", {numbers}, {}).v[0][17], 30);
  CHECK_EQ(program.run("bpermute", {numbers}, {}).v[0][5], 37);
  Row reversed;
  for (uint32_t lane = 0; lane < kLanes; ++lane) reversed[lane] = 63 - lane;
  CHECK_EQ(program.run("permute", {numbers, reversed}, {}).v[0][5], 58);
  CHECK_EQ(program.run("swizzle", {numbers}, {}).v[0][37], 53);
  CHECK_EQ(program.run("swizzlequad", {numbers}, {}).v[0][37], 36);
}

}  // namespace
}  // namespace flashattn::gcn
