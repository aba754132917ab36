// SPDX-License-Identifier: Apache-2.0
// FLASHATTN_BACKEND and FLASHATTN_LOG.
#pragma once

#include <cstdint>

#include "src/status.h"

namespace flashattn {

struct Environment {
  int32_t backend = 0;    // what FLASHATTN_BACKEND_AUTO means: FLASHATTN_BACKEND_*
  int32_t log_level = 0;  // 0 = off, else FLASHATTN_LOG_*
};

// The environment as the first call of this process found it; unset and empty variables give the defaults.
// ENVIRONMENT, on every call, when a variable had an unknown value then.
Status environment(Environment *result);

}  // namespace flashattn
