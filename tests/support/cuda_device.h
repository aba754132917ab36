// SPDX-License-Identifier: Apache-2.0
// Test tensors in the memory of CUDA device 0, through the driver API.
#pragma once

#include <memory>

#include "tests/support/device.h"

namespace flashattn::test {

// Throws std::runtime_error when there is no driver or no device.
std::unique_ptr<Device> make_cuda_device();

}  // namespace flashattn::test
