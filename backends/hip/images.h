// SPDX-License-Identifier: Apache-2.0
// Device code embedded by the build, one code object per file of kernels (images.S.in).
#pragma once

// The names are assembler symbols. NOLINTBEGIN(readability-identifier-naming)
extern "C" {
extern const unsigned char embedded_code_generic[];
extern const unsigned char embedded_code_combine[];
extern const unsigned char embedded_code_f16_d64[];
extern const unsigned char embedded_code_f16_d128[];
extern const unsigned char embedded_code_f16_d256[];
extern const unsigned char embedded_code_bf16_d64[];
extern const unsigned char embedded_code_bf16_d128[];
extern const unsigned char embedded_code_bf16_d256[];
}
// NOLINTEND(readability-identifier-naming)
