// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gcn/opcodes.h"

namespace flashattn::gcn {

const OpcodeTable &opcodes() {
  static const OpcodeTable table = [] {
    OpcodeTable all;
    add_scalar_opcodes(all);
    add_control_opcodes(all);
    add_float_opcodes(all);
    add_half_opcodes(all);
    add_integer_opcodes(all);
    add_wide_opcodes(all);
    add_packed_opcodes(all);
    add_compare_opcodes(all);
    add_lane_opcodes(all);
    add_matrix_opcodes(all);
    add_lds_opcodes(all);
    add_global_opcodes(all);
    add_buffer_opcodes(all);
    return all;
  }();
  return table;
}

}  // namespace flashattn::gcn
