// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace flashattn::cli {

// Bytes that can be allocated now without swapping: MemAvailable of /proc/meminfo, all physical memory where
// the kernel does not tell.
uint64_t available_memory();

}  // namespace flashattn::cli
