// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/environment.h"
#include "src/status.h"

namespace flashattn {

// Reads options into full size (NULL gives defaults), resolves FLASHATTN_BACKEND_AUTO by the environment and
// checks every field that can be checked without a device.
Status check_options(const flashattn_options_t *source, const Environment &environment,
                     flashattn_options_t *options);

}  // namespace flashattn
