// SPDX-License-Identifier: Apache-2.0
// For the interpreter's own tests: kernels written in assembly inside the test, assembled by clang when it
// runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/gcn/formats.h"
#include "tests/support/gcn/machine.h"
#include "tests/support/gcn/trap.h"

namespace flashattn::gcn {

// A code object of gfx942 from assembly text. Throws std::runtime_error with the assembler's messages.
std::string assemble(const std::string &text);

// The text of one kernel: `body` between a label and s_endpgm, with a descriptor that asks for the kernel
// argument pointer in s[0:1], the workgroup id in s2, work item ids in v0, and lds_bytes of LDS.
std::string kernel_text(const std::string &name, const std::string &body, int lds_bytes = 0);

// A kernel whose body sees v2 .. v7 and s8 .. s13 filled from buffers, v8 = 4 * lane, v0 = the work item and
// s[4:5] = an address of 4096 bytes of scratch memory that begin as 0, 1, 2, ... (32-bit). After the body v10
// .. v13 and s20 .. s23 and SCC are stored. v10 .. v13 begin as 0xdddddddd. The body is assembled as it
// stands.
struct Snippet {
  std::string name;
  std::string body;
  int lds_bytes = 0;
};

struct SnippetResult {
  std::vector<Row> v;       // v10 .. v13
  std::vector<uint32_t> s;  // s20 .. s23
  uint32_t scc = 0;
  std::vector<uint32_t> memory;  // the 4096 bytes afterwards
};

// Assembles all snippets into one code object.
class Snippets {
 public:
  explicit Snippets(const std::vector<Snippet> &snippets);
  // Registers beyond those given are 0. Runs one wave, or `waves`, all with the same inputs. `memory`, when
  // given, is what the scratch memory begins as.
  SnippetResult run(const std::string &name, const std::vector<Row> &v, const std::vector<uint32_t> &s,
                    const MachineOptions &options = {}, uint32_t waves = 1,
                    const std::vector<uint32_t> &memory = {}) const;

 private:
  Program program_;
};

inline uint32_t f32(float value) {
  return as_bits(value);
}

// Lanes 0, 1, .. get the values, the rest the last one.
Row lanes_of(const std::vector<uint32_t> &values);

// What a Trap said, or "" when there was none.
template <typename F>
std::string trap_of(F function) {
  try {
    function();
  } catch (const Trap &caught) {
    return caught.what();
  }
  return "";
}

}  // namespace flashattn::gcn
