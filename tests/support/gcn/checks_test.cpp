// SPDX-License-Identifier: Apache-2.0
// The checks that make the interpreter a test: each rule broken on purpose must stop the machine and say why.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/gcn/testing.h"

namespace flashattn::gcn {
namespace {

bool contains(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos;
}

// Two waves; wave 0 works on LDS alone in the first half of the body.
std::string only_wave(int wave, const std::string &body) {
  return "v_cmp_eq_u32 vcc, " + std::to_string(wave) + ", v22\n s_and_saveexec_b64 s[30:31], vcc\n" + body +
         "s_mov_b64 exec, s[30:31]\n";
}

std::string two_waves(const std::string &body) {
  return "v_lshrrev_b32 v22, 6, v0\n" + body;
}

TEST_CASE("global accesses are held to their buffers") {
  const Snippets program({{"past", "global_load_dword v10, v8, s[4:5] offset:3844\n s_waitcnt vmcnt(0)"},
                          {"before", "global_load_dword v10, v8, s[4:5] offset:-4\n s_waitcnt vmcnt(0)"},
                          {"store", "v_add_u32 v9, 0xf04, v8\n global_store_dword v9, v2, s[4:5]"},
                          {"readonly", "global_store_dword v8, v2, s[0:1]"},
                          {"misaligned", "global_load_dword v10, v8, s[4:5] offset:2\n s_waitcnt vmcnt(0)"},
                          {"scalar", "s_load_dword s20, s[4:5], 0x1000\n s_waitcnt lgkmcnt(0)"},
                          {"inactive",
                           "s_mov_b64 exec, 1\n global_load_dword v10, v8, s[4:5] offset:3844\n"
                           "s_waitcnt vmcnt(0)"}});
  CHECK(contains(trap_of([&] { program.run("past", {}, {}); }), "global load of 4 bytes out of bounds"));
  CHECK(contains(trap_of([&] { program.run("before", {}, {}); }), "out of bounds"));
  CHECK(contains(trap_of([&] { program.run("store", {}, {}); }), "global store of 4 bytes out of bounds"));
  CHECK(contains(trap_of([&] { program.run("readonly", {}, {}); }), "read-only buffer vectors"));
  CHECK(contains(trap_of([&] { program.run("misaligned", {}, {}); }), "misaligned"));
  CHECK(contains(trap_of([&] { program.run("scalar", {}, {}); }), "out of bounds"));
  CHECK_EQ(trap_of([&] { program.run("inactive", {}, {}); }), "");
}

TEST_CASE("LDS accesses are held to the workgroup's bytes and alignment") {
  const Snippets program({{"past", "ds_read_b32 v10, v8 offset:4\n s_waitcnt lgkmcnt(0)", 256},
                          {"misaligned", "ds_read_b64 v[10:11], v8\n s_waitcnt lgkmcnt(0)", 512}});
  CHECK(contains(trap_of([&] { program.run("past", {}, {}); }), "LDS access out of bounds"));
  CHECK(contains(trap_of([&] { program.run("misaligned", {}, {}); }), "misaligned LDS"));
}

TEST_CASE("a register may not be touched before its load is waited for") {
  const Snippets program({
      {"read", "global_load_dword v10, v8, s[4:5]\n v_add_u32 v11, v10, v10"},
      {"write", "global_load_dword v10, v8, s[4:5]\n v_mov_b32 v10, 0"},
      {"scalar", "s_load_dword s20, s[4:5], 0x0\n s_add_u32 s21, s20, 1"},
      {"lds", "ds_read_b32 v10, v8\n v_add_u32 v11, v10, v10", 256},
      {"permute", "ds_bpermute_b32 v10, v8, v2\n v_add_u32 v11, v10, v10"},
      {"wrongcounter", "global_load_dword v10, v8, s[4:5]\n s_waitcnt lgkmcnt(0)\n v_add_u32 v11, v10, v10"},
      {"count",
       "global_load_dword v10, v8, s[4:5]\n global_load_dword v11, v8, s[4:5]\n s_waitcnt vmcnt(1)\n"
       "v_mov_b32 v12, v10"},
      {"countshort",
       "global_load_dword v10, v8, s[4:5]\n global_load_dword v11, v8, s[4:5]\n s_waitcnt vmcnt(1)\n"
       "v_mov_b32 v12, v11"},
      {"ldscount", "ds_read_b32 v10, v8\n ds_read_b32 v11, v8\n s_waitcnt lgkmcnt(1)\n v_mov_b32 v12, v10",
       256},
      {"scalarcount",
       "s_load_dword s20, s[4:5], 0x0\n s_load_dword s21, s[4:5], 0x0\n s_waitcnt lgkmcnt(1)\n"
       "s_mov_b32 s22, s20"},
      {"flat",
       "v_mov_b32 v20, s4\n v_mov_b32 v21, s5\n flat_load_dword v10, v[20:21]\n s_waitcnt vmcnt(0)\n"
       "v_mov_b32 v11, v10"},
      {"flatboth",
       "v_mov_b32 v20, s4\n v_mov_b32 v21, s5\n flat_load_dword v10, v[20:21]\n s_waitcnt lgkmcnt(0)\n"
       "s_waitcnt vmcnt(0)\n v_mov_b32 v11, v10"},
      {"other", "global_load_dword v10, v8, s[4:5]\n v_add_u32 v11, v2, v3"},
  });
  const char *touched = "while a load into it is under way";
  for (const char *name :
       {"read", "write", "scalar", "lds", "permute", "wrongcounter", "countshort", "scalarcount", "flat"}) {
    CAPTURE(std::string(name));
    CHECK(contains(trap_of([&] { program.run(name, {}, {}); }), touched));
  }
  for (const char *name : {"count", "ldscount", "flatboth", "other"}) {
    CAPTURE(name);
    CHECK_EQ(trap_of([&] { program.run(name, {}, {}); }), "");
  }
  MachineOptions eager;
  eager.eager_memory = true;
  CHECK_EQ(trap_of([&] { program.run("read", {}, {}, eager); }), "");
}

TEST_CASE("stores read their data when issued") {
  const Snippets program(
      std::vector<Snippet>{{"reuse", "global_store_dword v8, v2, s[4:5]\n v_mov_b32 v2, 0"}});
  CHECK_EQ(program.run("reuse", {lanes_of({7})}, {}).memory[5], 7);
}

TEST_CASE("LDS races between waves are found without luck") {
  const std::string write = "ds_write_b32 v8, v2\n";
  const std::string wait = "s_waitcnt lgkmcnt(0)\n";
  const std::string barrier = "s_barrier\n";
  const std::string read = "ds_read_b32 v10, v8\n" + wait;
  const Snippets program({
      {"good", two_waves(only_wave(0, write) + wait + barrier + only_wave(1, read)), 256},
      {"nobarrier", two_waves(only_wave(0, write + wait) + only_wave(1, read)), 256},
      {"nowait", two_waves(only_wave(0, write) + barrier + only_wave(1, read)), 256},
      {"overwrite",
       two_waves(only_wave(0, write + wait) + barrier + only_wave(1, read) + only_wave(0, write + wait)),
       256},
      {"bothwrite", two_waves(write + wait), 256},
      {"dmawait",
       "s_mov_b32 m0, 0\n global_load_lds_dword v8, s[4:5]\n ds_read_b32 v10, v8\n s_waitcnt lgkmcnt(0)",
       256},
      {"dmabarrier",
       two_waves("s_mov_b32 m0, 0\n" + only_wave(0, "global_load_lds_dword v8, s[4:5]\n") + barrier +
                 "s_waitcnt vmcnt(0)\n" + only_wave(1, read)),
       256},
      {"dmagood",
       two_waves("s_mov_b32 m0, 0\n" + only_wave(0, "global_load_lds_dword v8, s[4:5]\n") +
                 "s_waitcnt vmcnt(0)\n" + barrier + only_wave(1, read)),
       256},
      // The buffer is refilled while the other wave may still read it.
      {"dmaearly",
       two_waves("s_mov_b32 m0, 0\n" + only_wave(0, write + wait) + barrier + only_wave(1, read) +
                 only_wave(0, "global_load_lds_dword v8, s[4:5]\n") + barrier + "s_waitcnt vmcnt(0)\n"),
       256},
  });
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    for (const uint32_t quantum : {0U, 3U}) {
      MachineOptions options;
      options.seed = seed;
      options.quantum = quantum;
      const auto trapped = [&](const char *name) {
        return trap_of([&] { program.run(name, {}, {}, options, 2); });
      };
      CHECK_EQ(trapped("good"), "");
      CHECK_EQ(trapped("dmagood"), "");
      CHECK(contains(trapped("nobarrier"), "LDS"));
      CHECK(contains(trapped("nowait"), "LDS"));
      CHECK(contains(trapped("overwrite"), "LDS race"));
      CHECK(contains(trapped("bothwrite"), "LDS"));
      CHECK(contains(trapped("dmabarrier"), "LDS"));
      CHECK(contains(trapped("dmaearly"), "LDS"));
    }
  }
  CHECK(contains(trap_of([&] { program.run("dmawait", {}, {}); }), "write is still under way"));
}

TEST_CASE("LDS and registers begin as poison") {
  const Snippets program(
      {{"lds", "ds_read_b32 v10, v8\n s_waitcnt lgkmcnt(0)", 256},
       {"registers", "v_mov_b32 v10, v50\n v_accvgpr_read_b32 v11, a7\n s_mov_b32 s20, s60"}});
  CHECK_EQ(program.run("lds", {}, {}).v[0][7], 0xa5a5a5a5U);
  const SnippetResult r = program.run("registers", {}, {});
  CHECK_EQ(r.v[0][7], 0xffffffffU);
  CHECK_EQ(r.v[1][7], 0xffffffffU);
  CHECK_EQ(r.s[0], 0xa5a5a5a5U);
}

TEST_CASE("an unknown instruction, modifier or operand stops with its text") {
  const Snippets program({{"opcode", "v_sad_u32 v10, v2, v3, v4"},
                          {"returning", "global_atomic_add v10, v8, v2, s[4:5] sc0\n s_waitcnt vmcnt(0)"},
                          {"skipped", "s_branch 1f\n v_sad_u32 v10, v2, v3, v4\n1: s_nop 0"}});
  CHECK(contains(trap_of([&] { program.run("opcode", {}, {}); }), "unknown instruction"));
  CHECK(contains(trap_of([&] { program.run("opcode", {}, {}); }), "v_sad_u32 v10, v2, v3, v4"));
  CHECK(contains(trap_of([&] { program.run("returning", {}, {}); }), "unknown instruction"));
  CHECK_EQ(trap_of([&] { program.run("skipped", {}, {}); }), "");
}

TEST_CASE("a barrier counts the waves that are alive") {
  const Snippets program(std::vector<Snippet>{
      {"leaves", two_waves("v_readfirstlane_b32 s40, v22\n s_cmp_eq_u32 s40, 0\n s_cbranch_scc1 1f\n"
                           "s_barrier\n1: s_nop 0")}});
  CHECK_EQ(trap_of([&] { program.run("leaves", {}, {}, {}, 2); }), "");
}

TEST_CASE("a program without an end stops at the limit") {
  const Snippets program(std::vector<Snippet>{{"loop", "1: s_nop 0\n s_branch 1b"}});
  MachineOptions options;
  options.quantum = 10;
  options.instruction_limit = 1000;
  CHECK(contains(trap_of([&] { program.run("loop", {}, {}, options); }), "limit of 1000"));
}

TEST_CASE("equal seeds give equal runs") {
  // Four waves race for one atomic counter; the order shows in what each sees.
  const Snippets program(std::vector<Snippet>{
      {"order",
       "v_lshrrev_b32 v9, 6, v0\n s_nop 0\n s_nop 0\n v_mov_b32 v23, 0\n"
       "global_load_dword v20, v23, s[4:5]\n s_waitcnt vmcnt(0)\n v_lshlrev_b32 v20, 4, v20\n"
       "v_or_b32 v20, v20, v9\n global_store_dword v23, v20, s[4:5]\n s_waitcnt vmcnt(0)"}});
  MachineOptions options;
  options.quantum = 2;
  std::vector<uint32_t> seen;
  for (options.seed = 1; options.seed <= 8; ++options.seed) {
    const uint32_t first = program.run("order", {}, {}, options, 4).memory[0];
    CHECK_EQ(program.run("order", {}, {}, options, 4).memory[0], first);
    seen.push_back(first);
  }
  CHECK(std::any_of(seen.begin(), seen.end(), [&](uint32_t x) { return x != seen[0]; }));
}

}  // namespace
}  // namespace flashattn::gcn
