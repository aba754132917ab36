// SPDX-License-Identifier: Apache-2.0
// The backends compiled into the library, in the order FLASHATTN_BACKEND_AUTO tries them (GPUs before the
// CPU).
#pragma once

#include <cstdint>

#include "backends/backend.h"

namespace flashattn {

// Number of backends known, built or not.
int32_t registry_count();
// 0 <= index < registry_count().
const Backend &registry_at(int32_t index);
// The backend with this FLASHATTN_BACKEND_* id, or nullptr.
const Backend *registry_find(int32_t id);

// Tests put a double in the place of the backend with its id; nullptr takes it out again. Not thread-safe.
void registry_set_test_backend(const Backend *backend);

}  // namespace flashattn
