// SPDX-License-Identifier: Apache-2.0
// What this processor can do, as far as the kernels care.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flashattn::cpu {

struct CpuFeatures {
  bool avx2;    // with FMA, F16C, BMI1/2 and LZCNT, as the kernel's compiler flags assume; YMM state enabled
  bool avx512;  // F, BW, CD, DQ, VL on top of avx2; ZMM state enabled
  bool neon;
};

// Detected once.
const CpuFeatures &cpu_features();

// Instruction sets by name, space separated, for flashattn_device_info_t.features.
void cpu_feature_names(char *out, size_t size);
// "AMD EPYC 7763 64-Core Processor" or the architecture's name.
void cpu_name(char *out, size_t size);
// Processors this process may run on, >= 1.
int32_t cpu_count();
// Bytes of RAM, 0 where unknown.
uint64_t total_memory();

}  // namespace flashattn::cpu
