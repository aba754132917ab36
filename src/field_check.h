// SPDX-License-Identifier: Apache-2.0
// The wording of errors about one field: field, value, rule.
#pragma once

#include <cinttypes>
#include <cstddef>
#include <cstdint>

#include "src/status.h"

namespace flashattn {

// INVALID_ARGUMENT: "field is value; rule".
inline Status invalid_field(const char *field, int64_t value, const char *rule) {
  return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "%s is %" PRId64 "; %s", field, value, rule);
}

// INVALID_ARGUMENT unless all words of a struct's `reserved` are zero.
template <size_t kCount>
Status check_reserved_words(const uint64_t (&words)[kCount]) {
  for (size_t i = 0; i < kCount; ++i) {
    if (words[i] != 0) {
      return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "reserved[%zu] is %" PRIu64 "; it must be 0", i,
                  words[i]);
    }
  }
  return kOk;
}

}  // namespace flashattn
