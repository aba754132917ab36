// SPDX-License-Identifier: Apache-2.0
// Every instruction the machine knows, by mnemonic without encoding suffix. One function per family.
#pragma once

#include <string>
#include <unordered_map>

#include "tests/support/gcn/instruction.h"

namespace flashattn::gcn {

using OpcodeTable = std::unordered_map<std::string, Execute>;

void add_scalar_opcodes(OpcodeTable &table);
void add_control_opcodes(OpcodeTable &table);
void add_float_opcodes(OpcodeTable &table);
void add_half_opcodes(OpcodeTable &table);
void add_integer_opcodes(OpcodeTable &table);
void add_wide_opcodes(OpcodeTable &table);
void add_packed_opcodes(OpcodeTable &table);
void add_compare_opcodes(OpcodeTable &table);
void add_lane_opcodes(OpcodeTable &table);
void add_matrix_opcodes(OpcodeTable &table);
void add_lds_opcodes(OpcodeTable &table);
void add_global_opcodes(OpcodeTable &table);
void add_buffer_opcodes(OpcodeTable &table);

// All of them, filled once.
const OpcodeTable &opcodes();

}  // namespace flashattn::gcn
