// SPDX-License-Identifier: Apache-2.0
// The CPU backend: always built, always there, last in the registry.
#pragma once

#include "backends/backend.h"

namespace flashattn {

// Constant-initialised; lives as long as the library.
const Backend &cpu_backend();

}  // namespace flashattn
