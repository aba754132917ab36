// SPDX-License-Identifier: Apache-2.0
#include "backends/driver_table.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>

namespace flashattn {
namespace {

// The library that opened and its name, or null with the loader's reasons in `reasons`.
void *open_first(const DriverDescription &description, const char **name, char *reasons,
                 size_t reasons_size) {
  size_t length = 0;
  for (size_t i = 0; i < description.library_count; ++i) {
    *name = description.libraries[i];
    void *library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return library;
    const char *reason = dlerror();
    if (reason == nullptr || length >= reasons_size) continue;
    const int written =
        std::snprintf(reasons + length, reasons_size - length, "%s%s", length == 0 ? "" : "; ", reason);
    length += static_cast<size_t>(written);
  }
  return nullptr;
}

}  // namespace

Status fill_driver_table(const DriverDescription &description, void *table) {
  const char *name = nullptr;
  char reasons[kMaxErrorText] = "";
  void *library = open_first(description, &name, reasons, sizeof reasons);
  if (library == nullptr) {
    return fail(FLASHATTN_STATUS_NO_DRIVER, "%s could not be opened: %s", description.what, reasons);
  }
  for (size_t i = 0; i < description.entry_count; ++i) {
    const DriverEntry &entry = description.entries[i];
    void *address = dlsym(library, entry.symbol);
    if (address == nullptr && entry.mark == DriverMark::kRequired) {
      return fail(FLASHATTN_STATUS_DRIVER_TOO_OLD, "%s is too old: %s has no %s; %s or newer is needed",
                  description.what, name, entry.symbol, description.minimum);
    }
    // POSIX gives data and function pointers one representation.
    std::memcpy(static_cast<char *>(table) + entry.offset, &address, sizeof address);
  }
  return kOk;
}

}  // namespace flashattn
