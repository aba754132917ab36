// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backends/backend.h"

namespace flashattn {

const Backend &hip_backend();

}  // namespace flashattn
