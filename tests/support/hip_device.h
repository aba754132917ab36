// SPDX-License-Identifier: Apache-2.0
// Test tensors in the memory of HIP device 0, through the HIP runtime: a card's, or the test double's.
#pragma once

#include <memory>

#include "tests/support/device.h"

namespace flashattn::test {

// Throws std::runtime_error when there is no runtime or no device.
std::unique_ptr<Device> make_hip_device();

}  // namespace flashattn::test
