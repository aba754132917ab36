// SPDX-License-Identifier: Apache-2.0
// Global, buffer and LDS instructions: what they move and where.
#include <doctest/doctest.h>

#include "tests/support/gcn/testing.h"

namespace flashattn::gcn {
namespace {

Row numbers(uint32_t scale) {
  Row row;
  for (uint32_t lane = 0; lane < kLanes; ++lane) row[lane] = lane * scale;
  return row;
}

TEST_CASE("global loads of every width") {
  const Snippets program({
      {"x1", "global_load_dword v10, v8, s[4:5] offset:4\n s_waitcnt vmcnt(0)"},
      {"x4", "v_lshlrev_b32 v9, 2, v8\n global_load_dwordx4 v[10:13], v9, s[4:5]\n s_waitcnt vmcnt(0)"},
      {"address",
       "v_mov_b32 v20, s4\n v_mov_b32 v21, s5\n v_add_u32 v9, 4, v8\n v_add_co_u32 v20, vcc, v20, v9\n"
       "v_addc_co_u32 v21, vcc, 0, v21, vcc\n global_load_dword v10, v[20:21], off offset:-4\n"
       "s_waitcnt vmcnt(0)"},
      {"ubyte", "global_load_ubyte v10, v8, s[4:5] offset:1025\n s_waitcnt vmcnt(0)"},
      {"sbyte", "global_load_sbyte v10, v8, s[4:5] offset:512\n s_waitcnt vmcnt(0)"},
      {"ushort", "global_load_ushort v10, v8, s[4:5] offset:512\n s_waitcnt vmcnt(0)"},
      {"d16", "global_load_short_d16 v10, v8, s[4:5]\n s_waitcnt vmcnt(0)"},
      {"d16hi", "global_load_short_d16_hi v10, v8, s[4:5]\n s_waitcnt vmcnt(0)"},
      {"masked", "s_mov_b64 exec, 2\n global_load_dword v10, v8, s[4:5]\n s_waitcnt vmcnt(0)"},
      {"flat",
       "v_mov_b32 v20, s4\n v_mov_b32 v21, s5\n flat_load_dword v10, v[20:21]\n"
       "s_waitcnt vmcnt(0) lgkmcnt(0)"},
      {"scalar", "s_load_dwordx4 s[20:23], s[4:5], 0x20\n s_waitcnt lgkmcnt(0)"},
      {"scalaroffset", "s_load_dword s20, s[4:5], s8\n s_waitcnt lgkmcnt(0)"},
  });
  CHECK_EQ(program.run("x1", {}, {}).v[0][5], 6);
  const SnippetResult x4 = program.run("x4", {}, {});
  CHECK_EQ(x4.v[0][5], 20);
  CHECK_EQ(x4.v[3][63], 255);
  CHECK_EQ(program.run("address", {}, {}).v[0][5], 5);
  CHECK_EQ(program.run("ubyte", {}, {}).v[0][5], 1);            // word 261 = 0x105
  CHECK_EQ(program.run("sbyte", {}, {}).v[0][5], 0xffffff85U);  // word 133 = 0x85
  CHECK_EQ(program.run("ushort", {}, {}).v[0][5], 0x85);
  CHECK_EQ(program.run("d16", {}, {}).v[0][5], 0xdddd0005U);
  CHECK_EQ(program.run("d16hi", {}, {}).v[0][5], 0x0005ddddU);
  const SnippetResult masked = program.run("masked", {}, {});
  CHECK_EQ(masked.v[0][0], 0xddddddddU);
  CHECK_EQ(masked.v[0][1], 1);
  CHECK_EQ(program.run("flat", {}, {}).v[0][5], 0);
  CHECK_EQ(program.run("scalar", {}, {}).s[3], 11);
  CHECK_EQ(program.run("scalaroffset", {}, {40}).s[0], 10);
}

TEST_CASE("global stores and atomics") {
  const Snippets program({
      {"x2", "v_lshlrev_b32 v9, 1, v8\n global_store_dwordx2 v9, v[2:3], s[4:5]"},
      {"byte", "global_store_byte v8, v2, s[4:5] offset:1"},
      {"short", "global_store_short v8, v2, s[4:5]"},
      {"hi", "global_store_short_d16_hi v8, v2, s[4:5]"},
      {"add", "v_mov_b32 v9, 0\n global_atomic_add v9, v2, s[4:5]"},
      {"addf", "v_mov_b32 v9, 0\n global_atomic_add_f32 v9, v3, s[4:5]"},
  });
  const Row pattern = lanes_of({0xaabbccdd});
  CHECK_EQ(program.run("x2", {numbers(3), numbers(5)}, {}).memory[21], 50);
  CHECK_EQ(program.run("byte", {pattern}, {}).memory[5], 0xdd05);
  CHECK_EQ(program.run("short", {pattern}, {}).memory[5], 0xccdd);
  CHECK_EQ(program.run("hi", {pattern}, {}).memory[5], 0xaabb);
  CHECK_EQ(program.run("add", {numbers(1)}, {}).memory[0], 63 * 32);
  CHECK_EQ(program.run("addf", {pattern, lanes_of({f32(0.5F)})}, {}).memory[0], f32(32));
}

TEST_CASE("raw buffers: range, offsets, and what lies outside") {
  // Descriptor: base s[4:5], s8 bytes.
  const std::string descriptor =
      "s_mov_b32 s36, s4\n s_and_b32 s37, s5, 0xffff\n s_mov_b32 s38, s8\n"
      "s_mov_b32 s39, 0x00020000\n";
  const Snippets program({
      {"load", descriptor + "buffer_load_dword v10, v8, s[36:39], 0 offen\n s_waitcnt vmcnt(0)"},
      {"soffset", descriptor + "buffer_load_dword v10, v8, s[36:39], s9 offen offset:8\n s_waitcnt vmcnt(0)"},
      {"x2", descriptor + "buffer_load_dwordx2 v[10:11], v8, s[36:39], 0 offen\n s_waitcnt vmcnt(0)"},
      {"ushort", descriptor + "buffer_load_ushort v10, v8, s[36:39], 0 offen\n s_waitcnt vmcnt(0)"},
      {"store", descriptor + "buffer_store_dword v2, v8, s[36:39], 0 offen"},
      {"storeshort", descriptor + "buffer_store_short v2, v8, s[36:39], 0 offen"},
  });
  const SnippetResult load = program.run("load", {}, {40});
  CHECK_EQ(load.v[0][9], 9);
  CHECK_EQ(load.v[0][10], 0);
  const SnippetResult moved = program.run("soffset", {}, {40, 4});
  CHECK_EQ(moved.v[0][6], 9);
  CHECK_EQ(moved.v[0][7], 0);
  const SnippetResult x2 = program.run("x2", {}, {40});
  CHECK_EQ(x2.v[0][9], 9);
  CHECK_EQ(x2.v[1][9], 0);  // each register is checked by itself
  CHECK_EQ(program.run("ushort", {}, {38}).v[0][9], 9);
  const SnippetResult store = program.run("store", {lanes_of({7})}, {40});
  CHECK_EQ(store.memory[9], 7);
  CHECK_EQ(store.memory[10], 10);
  CHECK_EQ(program.run("storeshort", {lanes_of({0x10007})}, {40}).memory[9], 7);
}

TEST_CASE("LDS reads and writes of every width") {
  const std::string wait = "s_waitcnt lgkmcnt(0)\n";
  const Snippets program({
      {"b32", "ds_write_b32 v8, v2 offset:16\n" + wait + "ds_read_b32 v10, v8 offset:16\n" + wait, 512},
      {"b64", "v_lshlrev_b32 v9, 1, v8\n ds_write_b64 v9, v[2:3]\n ds_read_b32 v10, v9 offset:4\n" + wait,
       512},
      {"b128", "v_lshlrev_b32 v9, 2, v8\n ds_write_b128 v9, v[2:5]\n ds_read_b128 v[10:13], v9\n" + wait,
       1024},
      {"b96", "v_lshlrev_b32 v9, 2, v8\n ds_write_b96 v9, v[2:4]\n ds_read_b96 v[10:12], v9\n" + wait, 1024},
      {"two",
       "ds_write2_b32 v8, v2, v3 offset0:0 offset1:64\n ds_read2_b32 v[10:11], v8 offset0:64 offset1:0\n" +
           wait,
       512},
      {"two64",
       "v_lshlrev_b32 v9, 1, v8\n ds_write2_b64 v9, v[2:3], v[4:5] offset0:0 offset1:64\n"
       "ds_read2_b64 v[10:13], v9 offset0:64 offset1:0\n" +
           wait,
       1024},
      {"st64",
       "ds_write2st64_b32 v8, v2, v3 offset0:0 offset1:1\n ds_read2st64_b32 v[10:11], v8 offset0:1 "
       "offset1:0\n" +
           wait,
       512},
      {"b16",
       "ds_write_b16 v8, v2\n ds_write_b16_d16_hi v8, v2 offset:2\n ds_read_b32 v10, v8\n"
       "ds_read_u16 v11, v8\n ds_read_i16 v12, v8 offset:2\n" +
           wait,
       256},
      {"b8", "ds_write_b8 v8, v2\n ds_read_u8 v10, v8\n ds_read_i8 v11, v8\n" + wait, 256},
      {"d16", "ds_write_b32 v8, v2\n ds_read_u16_d16 v10, v8\n ds_read_u16_d16_hi v11, v8 offset:2\n" + wait,
       256},
      {"tolds",
       "s_mov_b32 m0, 64\n global_load_lds_dword v8, s[4:5] offset:16\n s_waitcnt vmcnt(0)\n"
       "ds_read_b32 v10, v8 offset:80\n" +
           wait,
       512},
  });
  const Row pattern = lanes_of({0x8123cc85U});
  CHECK_EQ(program.run("b32", {numbers(3)}, {}).v[0][5], 15);
  CHECK_EQ(program.run("b64", {numbers(3), numbers(5)}, {}).v[0][5], 25);
  const SnippetResult b128 = program.run("b128", {numbers(3), numbers(5), numbers(7), numbers(9)}, {});
  CHECK_EQ(b128.v[0][5], 15);
  CHECK_EQ(b128.v[3][63], 63 * 9);
  CHECK_EQ(program.run("b96", {numbers(3), numbers(5), numbers(7)}, {}).v[2][5], 35);
  const SnippetResult two = program.run("two", {numbers(3), numbers(5)}, {});
  CHECK_EQ(two.v[0][5], 25);
  CHECK_EQ(two.v[1][5], 15);
  const SnippetResult two64 = program.run("two64", {numbers(3), numbers(5), numbers(7), numbers(9)}, {});
  CHECK_EQ(two64.v[0][5], 35);
  CHECK_EQ(two64.v[3][5], 25);
  CHECK_EQ(program.run("st64", {numbers(3), numbers(5)}, {}).v[0][5], 25);
  const SnippetResult b16 = program.run("b16", {pattern}, {});
  CHECK_EQ(b16.v[0][5], 0x8123cc85U);
  CHECK_EQ(b16.v[1][5], 0xcc85);
  CHECK_EQ(b16.v[2][5], 0xffff8123U);
  const SnippetResult b8 = program.run("b8", {pattern}, {});
  CHECK_EQ(b8.v[0][5], 0x85);
  CHECK_EQ(b8.v[1][5], 0xffffff85U);
  const SnippetResult d16 = program.run("d16", {pattern}, {});
  CHECK_EQ(d16.v[0][5], 0xddddcc85U);
  CHECK_EQ(d16.v[1][5], 0x8123ddddU);
  // LDS address M0 + offset + 4 * lane; global address base + offset + v8.
  CHECK_EQ(program.run("tolds", {}, {}).v[0][5], 9);
}

TEST_CASE("LDS bank conflicts are counted by groups of lanes served together") {
  Row addresses;
  for (uint32_t lane = 0; lane < kLanes; ++lane) addresses[lane] = 4 * lane;
  CHECK_EQ(bank_conflict_cycles(~uint64_t{0}, addresses.data(), 4, true), 0);
  for (uint32_t lane = 0; lane < kLanes; ++lane) addresses[lane] = 128 * lane;
  CHECK_EQ(bank_conflict_cycles(~uint64_t{0}, addresses.data(), 4, true), 62);  // 31 more for each half
  for (uint32_t lane = 0; lane < kLanes; ++lane) addresses[lane] = 0;
  CHECK_EQ(bank_conflict_cycles(~uint64_t{0}, addresses.data(), 4, true), 0);  // one word, broadcast
  for (uint32_t lane = 0; lane < kLanes; ++lane) addresses[lane] = 16 * lane;
  CHECK_EQ(bank_conflict_cycles(~uint64_t{0}, addresses.data(), 16, false), 0);
  // Rows of 256 bytes: eight lanes write the same four banks.
  for (uint32_t lane = 0; lane < kLanes; ++lane) addresses[lane] = 256 * (lane % 32);
  CHECK_EQ(bank_conflict_cycles(0xff, addresses.data(), 16, false), 7);
  // A read serves lanes 0..3 with 20..23: rows 0..3 and 20..23, four banks again; lanes 4..7 are another
  // group.
  CHECK_EQ(bank_conflict_cycles(0xf, addresses.data(), 16, true), 3);
  CHECK_EQ(bank_conflict_cycles(0xff, addresses.data(), 16, true), 6);
  CHECK_EQ(bank_conflict_cycles(0xf0000f, addresses.data(), 16, true), 7);
}

}  // namespace
}  // namespace flashattn::gcn
