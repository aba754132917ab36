// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "tools/cli/memory.h"

namespace flashattn::cli {

// Device memory through the CUDA driver API, in the device's primary context, which is where the library
// works unless told otherwise. Opens libcuda.so.1 at run time. Throws Failure. For use from the thread that
// made it.
std::unique_ptr<Memory> make_cuda_memory(int32_t device);

}  // namespace flashattn::cli
