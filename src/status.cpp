// SPDX-License-Identifier: Apache-2.0
#include "src/status.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace flashattn {
namespace {

constexpr char kEllipsis[] = "...";

// Plain storage: nothing is constructed when a thread starts and nothing destroyed when it ends.
thread_local ErrorState t_error;

Status record(Status status, int32_t driver_code, const char *format, va_list arguments) noexcept {
  // Formatted apart, since an argument may be the present text itself.
  char text[kMaxErrorText];
  const int length = std::vsnprintf(text, sizeof text, format, arguments);
  if (length < 0) text[0] = '\0';
  if (length >= kMaxErrorText)
    std::memcpy(text + kMaxErrorText - sizeof kEllipsis, kEllipsis, sizeof kEllipsis);
  std::memcpy(t_error.text, text, sizeof text);
  t_error.driver_code = driver_code;
  return status;
}

}  // namespace

Status fail(Status status, const char *format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  record(status, 0, format, arguments);
  va_end(arguments);
  return status;
}

Status fail_driver(Status status, int32_t driver_code, const char *format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  record(status, driver_code, format, arguments);
  va_end(arguments);
  return status;
}

SavedError::SavedError() noexcept : state_(t_error) {}

void SavedError::restore() const noexcept {
  t_error = state_;
}

}  // namespace flashattn

extern "C" {

const char *flashattn_status_string(flashattn_status_t status) {
  switch (status) {
    case FLASHATTN_STATUS_OK:
      return "ok";
    case FLASHATTN_STATUS_INVALID_ARGUMENT:
      return "invalid argument";
    case FLASHATTN_STATUS_NULL_POINTER:
      return "pointer is NULL where one is needed";
    case FLASHATTN_STATUS_STRUCT_SIZE:
      return "struct_size is not that of a struct of this library";
    case FLASHATTN_STATUS_WORKSPACE:
      return "workspace too small or misaligned";
    case FLASHATTN_STATUS_ENVIRONMENT:
      return "environment variable has an unknown value";
    case FLASHATTN_STATUS_INVALID_DATA:
      return "lengths or page indices break a rule";
    case FLASHATTN_STATUS_UNSUPPORTED:
      return "unsupported";
    case FLASHATTN_STATUS_NEWER_STRUCT:
      return "struct uses fields newer than this library";
    case FLASHATTN_STATUS_NOT_BUILT:
      return "the library was built without this backend";
    case FLASHATTN_STATUS_CAPTURING:
      return "not possible while the stream is being captured";
    case FLASHATTN_STATUS_OUT_OF_MEMORY:
      return "out of memory";
    case FLASHATTN_STATUS_OUT_OF_THREADS:
      return "the system refused a thread";
    case FLASHATTN_STATUS_NO_DRIVER:
      return "the driver library could not be opened";
    case FLASHATTN_STATUS_DRIVER_TOO_OLD:
      return "the driver is too old";
    case FLASHATTN_STATUS_NO_DEVICE:
      return "no usable device";
    case FLASHATTN_STATUS_INVALID_DEVICE:
      return "the device ordinal does not exist";
    case FLASHATTN_STATUS_DRIVER_ERROR:
      return "a driver call failed";
    case FLASHATTN_STATUS_FORKED:
      return "GPU handle used in a child process after fork";
    case FLASHATTN_STATUS_INTERNAL:
      return "internal error";
    default:
      return "unknown status";
  }
}

const char *flashattn_last_error(void) {
  return flashattn::t_error.text;
}

size_t flashattn_last_error_copy(char *buffer, size_t buffer_size) {
  const char *text = flashattn::t_error.text;
  const size_t length = std::strlen(text);
  if (buffer != nullptr && buffer_size > 0) {
    const size_t copied = std::min(length, buffer_size - 1);
    std::memcpy(buffer, text, copied);
    buffer[copied] = '\0';
  }
  return length;
}

int32_t flashattn_last_driver_error(void) {
  return flashattn::t_error.driver_code;
}

}  // extern "C"
