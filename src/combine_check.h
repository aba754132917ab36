// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/status.h"

namespace flashattn {

// Reads combine arguments into full size and checks them as a call is checked.
Status check_combine_args(const flashattn_combine_args_t *source, flashattn_combine_args_t *args);

}  // namespace flashattn
