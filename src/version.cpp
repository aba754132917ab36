// SPDX-License-Identifier: Apache-2.0
#include "flashattn.h"

namespace {

// Numbers become text in the preprocessor only.
#define FLASHATTN_TEXT_OF(x) #x
#define FLASHATTN_TEXT(x) FLASHATTN_TEXT_OF(x)
constexpr char kVersion[] = FLASHATTN_TEXT(FLASHATTN_VERSION_MAJOR) "." FLASHATTN_TEXT(
    FLASHATTN_VERSION_MINOR) "." FLASHATTN_TEXT(FLASHATTN_VERSION_PATCH);
#undef FLASHATTN_TEXT
#undef FLASHATTN_TEXT_OF

}  // namespace

extern "C" {

uint32_t flashattn_version(void) {
  return FLASHATTN_VERSION;
}

const char *flashattn_version_string(void) {
  return kVersion;
}

}  // extern "C"
