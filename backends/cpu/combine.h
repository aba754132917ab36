// SPDX-License-Identifier: Apache-2.0
// flashattn_combine on the CPU.
#pragma once

#include "backends/cpu/workers.h"
#include "flashattn.h"

namespace flashattn::cpu {

// args have been checked, dtypes included. Allocates nothing.
void combine(const flashattn_combine_args_t &args, Workers *workers);

}  // namespace flashattn::cpu
