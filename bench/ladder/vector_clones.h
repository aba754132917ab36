// SPDX-License-Identifier: Apache-2.0
#pragma once

// A function marked so is compiled for several vector widths, and the machine's is picked at load time (GCC). Not
// under a sanitizer, whose runtime is not ready then.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define FLASHATTN_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FLASHATTN_VECTOR_CLONES
#endif
