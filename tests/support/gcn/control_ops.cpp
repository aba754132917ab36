// SPDX-License-Identifier: Apache-2.0
// Branches, barriers, waits and what has no effect on results (CDNA3 ISA, chapter 4).
#include "tests/support/gcn/lanes.h"
#include "tests/support/gcn/opcodes.h"
#include "tests/support/gcn/trap.h"

namespace flashattn::gcn {
namespace {

template <typename Condition>
Execute branch_if(Condition condition) {
  static const Condition taken = condition;
  return [](Wave &wave, const Instruction &in) {
    if (!taken(wave)) return;
    if (in.branch < 0) trap(wave, in, "branch to an address without an instruction");
    wave.next = in.branch;
  };
}

}  // namespace

void add_control_opcodes(OpcodeTable &t) {
  t["s_branch"] = branch_if([](const Wave &) { return true; });
  t["s_cbranch_scc0"] = branch_if([](const Wave &wave) { return !wave.scc; });
  t["s_cbranch_scc1"] = branch_if([](const Wave &wave) { return wave.scc; });
  t["s_cbranch_vccz"] = branch_if([](const Wave &wave) { return wave.pair(kVcc) == 0; });
  t["s_cbranch_vccnz"] = branch_if([](const Wave &wave) { return wave.pair(kVcc) != 0; });
  t["s_cbranch_execz"] = branch_if([](const Wave &wave) { return wave.exec() == 0; });
  t["s_cbranch_execnz"] = branch_if([](const Wave &wave) { return wave.exec() != 0; });
  t["s_endpgm"] = [](Wave &wave, const Instruction &) { wave.done = true; };
  t["s_barrier"] = [](Wave &wave, const Instruction &) { wave.at_barrier = true; };
  t["s_waitcnt"] = [](Wave &wave, const Instruction &in) {
    const size_t before = wave.pending.size();
    wave.pending.wait(wave, in.simm16);
    wave.workgroup->statistics->waited_for[static_cast<size_t>(wave.at)] += before - wave.pending.size();
  };
  // Clocks: any non-decreasing number will do.
  t["s_memtime"] = t["s_memrealtime"] = [](Wave &wave, const Instruction &in) {
    wave.set_pair(in.operands[0].first, wave.workgroup->statistics->instructions);
  };
  const Execute nothing = [](Wave &, const Instruction &) {};
  for (const char *name : {"s_nop", "s_setprio", "s_sleep", "s_icache_inv", "s_dcache_inv", "s_dcache_wb",
                           "buffer_wbl2", "buffer_inv", "v_nop"}) {
    t[name] = nothing;
  }
}

}  // namespace flashattn::gcn
