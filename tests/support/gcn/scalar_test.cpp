// SPDX-License-Identifier: Apache-2.0
// Each scalar instruction against cases worked out by hand from its description in the CDNA3 ISA document.
#include <doctest/doctest.h>

#include "tests/support/gcn/testing.h"

namespace flashattn::gcn {
namespace {

constexpr uint32_t kMinusOne = 0xffffffffU;
constexpr uint32_t kAnyScc = 2;

// One body, s8 .. s11 before, s20 and SCC after. SCC is set to 1 before the body.
struct Case {
  const char *text;
  std::array<uint32_t, 4> inputs;
  uint32_t s20;
  uint32_t scc;
};

const std::vector<Case> kCases = {
    {"s_add_u32 s20, s8, s9", {kMinusOne, 2}, 1, 1},
    {"s_add_u32 s20, s8, s9", {1, 2}, 3, 0},
    {"s_addc_u32 s20, s8, s9", {1, 2}, 4, 0},
    {"s_addc_u32 s20, s8, s9", {kMinusOne, 0}, 0, 1},
    {"s_add_i32 s20, s8, s9", {0x7fffffff, 1}, 0x80000000U, 1},
    {"s_add_i32 s20, s8, s9", {kMinusOne, 1}, 0, 0},
    {"s_sub_u32 s20, s8, s9", {1, 2}, kMinusOne, 1},
    {"s_subb_u32 s20, s8, s9", {5, 2}, 2, 0},
    {"s_subb_u32 s20, s8, s9", {5, kMinusOne}, 5, 1},
    {"s_sub_i32 s20, s8, s9", {0x80000000U, 1}, 0x7fffffff, 1},
    {"s_mul_i32 s20, s8, s9", {0x10001, 0x10001}, 0x20001, 1},
    {"s_mul_hi_u32 s20, s8, s9", {kMinusOne, kMinusOne}, 0xfffffffeU, 1},
    {"s_mul_hi_i32 s20, s8, s9", {kMinusOne, 5}, kMinusOne, 1},
    {"s_abs_i32 s20, s8", {0xfffffffbU}, 5, 1},
    {"s_absdiff_i32 s20, s8, s9", {3, 5}, 2, 1},
    {"s_min_i32 s20, s8, s9", {kMinusOne, 1}, kMinusOne, 1},
    {"s_max_i32 s20, s8, s9", {kMinusOne, 1}, 1, 0},
    {"s_min_u32 s20, s8, s9", {kMinusOne, 1}, 1, 0},
    {"s_max_u32 s20, s8, s9", {kMinusOne, 1}, kMinusOne, 1},
    {"s_lshl1_add_u32 s20, s8, s9", {3, 1}, 7, 0},
    {"s_lshl2_add_u32 s20, s8, s9", {3, 1}, 13, 0},
    {"s_lshl3_add_u32 s20, s8, s9", {0x40000000, 1}, 1, 1},
    {"s_lshl4_add_u32 s20, s8, s9", {3, 1}, 49, 0},
    {"s_mov_b32 s20, s8", {5}, 5, 1},
    {"s_mov_b32 s20, 0xabcdef01", {}, 0xabcdef01U, 1},
    {"s_mov_b32 s20, 0.5", {}, 0x3f000000, 1},
    {"s_brev_b32 s20, s8", {5}, 0xa0000000U, 1},
    {"s_ff1_i32_b32 s20, s8", {8}, 3, 1},
    {"s_ff1_i32_b64 s20, s[8:9]", {0, 8}, 35, 1},
    {"s_flbit_i32_b32 s20, s8", {5}, 29, 1},
    {"s_sext_i32_i16 s20, s8", {0x8000}, 0xffff8000U, 1},
    {"s_sext_i32_i8 s20, s8", {0x80}, 0xffffff80U, 1},
    {"s_not_b32 s20, s8", {kMinusOne}, 0, 0},
    {"s_bcnt1_i32_b32 s20, s8", {0xff}, 8, 1},
    {"s_bcnt1_i32_b64 s20, s[8:9]", {0xff, 1}, 9, 1},
    {"s_and_b32 s20, s8, s9", {12, 3}, 0, 0},
    {"s_or_b32 s20, s8, s9", {12, 3}, 15, 1},
    {"s_xor_b32 s20, s8, s9", {12, 12}, 0, 0},
    {"s_andn2_b32 s20, s8, s9", {12, 4}, 8, 1},
    {"s_orn2_b32 s20, s8, s9", {0, 0xfffffff0U}, 15, 1},
    {"s_lshl_b32 s20, s8, s9", {3, 33}, 6, 1},
    {"s_lshr_b32 s20, s8, s9", {1, 1}, 0, 0},
    {"s_ashr_i32 s20, s8, s9", {0x80000000U, 31}, kMinusOne, 1},
    {"s_bfe_u32 s20, s8, s9", {0xabcd, 0x80004}, 0xbc, 1},
    {"s_bfe_u32 s20, s8, s9", {0xabcd, 0x200008}, 0xab, 1},
    {"s_bfe_i32 s20, s8, s9", {0xabcd, 0x80004}, 0xffffffbcU, 1},
    {"s_bfm_b32 s20, s8, s9", {3, 4}, 0x70, 1},
    {"s_cselect_b32 s20, s8, s9", {3, 4}, 3, 1},
    {"s_cmp_eq_u32 s8, s9\n s_cselect_b32 s20, s8, s9", {3, 4}, 4, 0},
    {"s_pack_ll_b32_b16 s20, s8, s9", {0x12345678, 0x9abcdef0U}, 0xdef05678U, 1},
    {"s_pack_lh_b32_b16 s20, s8, s9", {0x12345678, 0x9abcdef0U}, 0x9abc5678U, 1},
    {"s_pack_hh_b32_b16 s20, s8, s9", {0x12345678, 0x9abcdef0U}, 0x9abc1234U, 1},
    {"s_movk_i32 s20, 0x8000", {}, 0xffff8000U, 1},
    {"s_mov_b32 s20, s8\n s_addk_i32 s20, -3", {2}, kMinusOne, 0},
    {"s_mov_b32 s20, s8\n s_mulk_i32 s20, -3", {2}, 0xfffffffaU, 1},
    {"s_mov_b32 s20, s8\n s_cmovk_i32 s20, 7", {2}, 7, 1},
    {"s_mov_b32 s20, s8\n s_bitset1_b32 s20, 4", {2}, 18, 1},
    {"s_mov_b32 s20, s8\n s_bitset0_b32 s20, 1", {2}, 0, 1},
    {"s_mov_b64 s[20:21], -3\n s_mov_b32 s20, s21", {}, kMinusOne, 1},
    {"s_mov_b64 s[20:21], s[8:9]\n s_mov_b32 s20, s21", {5, 6}, 6, 1},
    {"s_not_b64 s[20:21], s[8:9]", {5, kMinusOne}, 0xfffffffaU, 1},
    {"s_and_b64 s[20:21], s[8:9], s[10:11]", {5, 6, 8, 1}, 0, 0},
    {"s_or_b64 s[20:21], s[8:9], s[10:11]", {5, 6, 8, 1}, 13, 1},
    {"s_xor_b64 s[20:21], s[8:9], s[10:11]", {5, 6, 5, 6}, 0, 0},
    {"s_andn2_b64 s[20:21], s[8:9], s[10:11]", {5, 6, 4, 6}, 1, 1},
    {"s_orn2_b64 s[20:21], s[8:9], s[10:11]", {5, 6, kMinusOne, kMinusOne}, 5, 1},
    {"s_nand_b64 s[20:21], s[8:9], s[10:11]", {5, 6, 5, 6}, 0xfffffffaU, 1},
    {"s_cselect_b64 s[20:21], s[8:9], s[10:11]", {5, 6, 7, 8}, 5, 1},
    {"s_lshl_b64 s[20:21], s[8:9], s10\n s_mov_b32 s20, s21", {0xf0000000U, 1, 4}, 0x1f, 1},
    {"s_lshr_b64 s[20:21], s[8:9], s10", {0, 1, 4}, 0x10000000, 1},
    {"s_ashr_i64 s[20:21], s[8:9], s10", {0, 0x80000000U, 36}, 0xf8000000U, 1},
    {"s_bfe_i64 s[20:21], s[8:9], 0x200000\n s_mov_b32 s20, s21", {0x80000000U, 0}, kMinusOne, 1},
    {"s_bfe_i64 s[20:21], s[8:9], s10", {0, 0xab, 0x40020}, 0xfffffffbU, 1},
    {"s_bfe_u64 s[20:21], s[8:9], s10", {0, 0xab, 0x40020}, 0xb, 1},
    {"s_cmp_eq_u32 s8, s9", {3, 3}, kAnyScc, 1},
    {"s_cmp_lg_u32 s8, s9", {3, 3}, kAnyScc, 0},
    {"s_cmp_gt_i32 s8, s9", {kMinusOne, 3}, kAnyScc, 0},
    {"s_cmp_gt_u32 s8, s9", {kMinusOne, 3}, kAnyScc, 1},
    {"s_cmp_ge_i32 s8, s9", {3, 3}, kAnyScc, 1},
    {"s_cmp_ge_u32 s8, s9", {2, 3}, kAnyScc, 0},
    {"s_cmp_lt_i32 s8, s9", {kMinusOne, 3}, kAnyScc, 1},
    {"s_cmp_lt_u32 s8, s9", {kMinusOne, 3}, kAnyScc, 0},
    {"s_cmp_le_i32 s8, s9", {3, 3}, kAnyScc, 1},
    {"s_cmp_le_u32 s8, s9", {4, 3}, kAnyScc, 0},
    {"s_cmp_eq_u64 s[8:9], s[10:11]", {1, 2, 1, 2}, kAnyScc, 1},
    {"s_cmp_lg_u64 s[8:9], s[10:11]", {1, 2, 1, 3}, kAnyScc, 1},
    {"s_bitcmp1_b32 s8, s9", {4, 2}, kAnyScc, 1},
    {"s_bitcmp0_b32 s8, s9", {4, 2}, kAnyScc, 0},
    {"s_cmpk_eq_i32 s8, 0xffff", {kMinusOne}, kAnyScc, 1},
    {"s_cmpk_eq_u32 s8, 0xffff", {0xffff}, kAnyScc, 1},
    {"s_cmpk_lg_i32 s8, 0xffff", {0xffff}, kAnyScc, 1},
    {"s_cmpk_gt_i32 s8, 0xfffe", {kMinusOne}, kAnyScc, 1},
    {"s_cmpk_ge_i32 s8, 0x1", {0}, kAnyScc, 0},
    {"s_cmpk_lt_i32 s8, 0x1", {0}, kAnyScc, 1},
    {"s_cmpk_le_i32 s8, 0xffff", {0}, kAnyScc, 0},
    {"s_cmpk_gt_u32 s8, 0xfffe", {0xffff}, kAnyScc, 1},
    {"s_cmpk_lt_u32 s8, 0xfffe", {0xffff}, kAnyScc, 0},
    {"s_mov_b64 exec, 6\n s_and_saveexec_b64 s[20:21], s[8:9]", {3, 0}, 6, 1},
    {"s_mov_b64 exec, 6\n s_and_saveexec_b64 s[22:23], s[8:9]\n s_mov_b32 s20, exec_lo", {3, 0}, 2, 1},
    {"s_mov_b64 exec, 6\n s_or_saveexec_b64 s[22:23], s[8:9]\n s_mov_b32 s20, exec_lo", {3, 0}, 7, 1},
    {"s_mov_b64 exec, 6\n s_xor_saveexec_b64 s[22:23], s[8:9]\n s_mov_b32 s20, exec_lo", {3, 0}, 5, 1},
    {"s_mov_b64 exec, 6\n s_andn2_saveexec_b64 s[22:23], s[8:9]\n s_mov_b32 s20, exec_lo", {3, 0}, 1, 1},
    {"s_branch 1f\n s_mov_b32 s8, 0\n1: s_mov_b32 s20, s8", {5}, 5, 1},
    {"s_cbranch_scc0 1f\n s_mov_b32 s8, 0\n1: s_mov_b32 s20, s8", {5}, 0, 1},
    {"s_cbranch_scc1 1f\n s_mov_b32 s8, 0\n1: s_mov_b32 s20, s8", {5}, 5, 1},
    {"s_mov_b64 vcc, 0\n s_cbranch_vccz 1f\n s_mov_b32 s8, 0\n1: s_mov_b32 s20, s8", {5}, 5, 1},
    {"s_mov_b64 vcc, 0\n s_cbranch_vccnz 1f\n s_mov_b32 s8, 0\n1: s_mov_b32 s20, s8", {5}, 0, 1},
    {"s_mov_b64 exec, 0\n s_cbranch_execz 1f\n s_mov_b32 s8, 0\n1: s_mov_b32 s20, s8", {5}, 5, 1},
    {"s_cbranch_execnz 1f\n s_mov_b32 s8, 0\n1: s_mov_b32 s20, s8", {5}, 5, 1},
    // A loop: 1 + 2 + 3 + 4.
    {"s_mov_b32 s20, 0\n1: s_add_u32 s20, s20, s8\n s_sub_u32 s8, s8, 1\n s_cmp_lg_u32 s8, 0\n "
     "s_cbranch_scc1 1b",
     {4},
     10,
     0},
};

TEST_CASE("scalar instructions give what the ISA document says") {
  std::vector<Snippet> snippets;
  for (size_t i = 0; i < kCases.size(); ++i) {
    snippets.push_back({"case" + std::to_string(i), std::string("s_cmp_eq_u32 0, 0\n") + kCases[i].text});
  }
  const Snippets program(snippets);
  for (size_t i = 0; i < kCases.size(); ++i) {
    const Case &c = kCases[i];
    CAPTURE(std::string(c.text));
    const SnippetResult result =
        program.run(snippets[i].name, {}, {c.inputs[0], c.inputs[1], c.inputs[2], c.inputs[3]});
    if (c.s20 != kAnyScc) CHECK_EQ(result.s[0], c.s20);
    CHECK_EQ(result.scc, c.scc);
  }
}

}  // namespace
}  // namespace flashattn::gcn
