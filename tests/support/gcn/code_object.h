// SPDX-License-Identifier: Apache-2.0
// An AMDGPU code object (ELF64, "AMDGPU Code Object V5" in LLVM's AMDGPUUsage): its kernels with their
// descriptors and metadata. Reads version 4, 5 and 6.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace flashattn::gcn {

// One kernel argument of the metadata note.
struct Argument {
  std::string name;
  std::string kind;  // "by_value", "global_buffer", "hidden_block_count_x", ...
  uint32_t offset = 0;
  uint32_t size = 0;
};

struct Kernel {
  std::string name;
  uint64_t entry = 0;  // address of the first instruction
  uint32_t lds_bytes = 0;
  uint32_t scratch_bytes = 0;
  uint32_t argument_bytes = 0;
  uint32_t rsrc1 = 0;
  uint32_t rsrc2 = 0;
  uint32_t rsrc3 = 0;
  uint16_t properties = 0;  // kernel_code_properties: which user registers are set up
  uint16_t preload = 0;     // kernarg_preload: length and offset in dwords
  // From the metadata note; 0 where it does not say.
  uint32_t vgpr_count = 0;
  uint32_t agpr_count = 0;
  uint32_t sgpr_count = 0;
  uint32_t vgpr_spill_count = 0;
  uint32_t max_workgroup_size = 0;
  std::vector<Argument> arguments;
};

struct CodeObject {
  std::string architecture;  // "gfx942"
  int version = 0;           // 4, 5 or 6
  std::map<std::string, Kernel> kernels;
};

// Bytes of the ELF image that begins at `image`: where its section header table or last section ends. For
// images handed over by address alone, as hipModuleLoadData takes them. 0 when it is no AMDGPU code object.
size_t code_object_size(const void *image);

// Throws std::runtime_error with what is wrong.
CodeObject read_code_object(const std::string &image);

}  // namespace flashattn::gcn
