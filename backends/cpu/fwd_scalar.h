// SPDX-License-Identifier: Apache-2.0
// fwd_cpu_scalar: every feature in plain C++, the kernel to read first and the last in the list.
#pragma once

#include "backends/cpu/kernel.h"

namespace flashattn::cpu {

extern const Kernel kFwdCpuScalar;

}  // namespace flashattn::cpu
