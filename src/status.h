// SPDX-License-Identifier: Apache-2.0
// Status codes inside the library, and the thread-local text behind flashattn_last_error.
#pragma once

#include <cstdint>

#include "flashattn.h"

namespace flashattn {

using Status = flashattn_status_t;

inline constexpr Status kOk = FLASHATTN_STATUS_OK;

// Records the printf-formatted text (field, value, rule; at most kMaxErrorText - 1 bytes, longer texts end in
// "...") as the calling thread's last error, clears its driver code, and returns status. Allocates nothing.
inline constexpr int kMaxErrorText = 512;
[[gnu::format(printf, 2, 3)]] Status fail(Status status, const char *format, ...) noexcept;

// As fail, with the driver's own code beside the text.
[[gnu::format(printf, 3, 4)]] Status fail_driver(Status status, int32_t driver_code, const char *format,
                                                 ...) noexcept;

// What flashattn_last_error and flashattn_last_driver_error answer.
struct ErrorState {
  char text[kMaxErrorText] = "";
  int32_t driver_code = 0;
};

// Remembers the calling thread's last error, for code that tries something that may fail inside a call that
// then succeeds: a successful call leaves the last error as it was.
class SavedError {
 public:
  SavedError() noexcept;
  void restore() const noexcept;

 private:
  ErrorState state_;
};

}  // namespace flashattn
