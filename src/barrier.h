// SPDX-License-Identifier: Apache-2.0
// The exception barrier: every entry point that can meet an exception runs its body through barrier().
#pragma once

#include <pthread.h>

#include <exception>
#include <new>
#include <system_error>

#include "src/status.h"

namespace flashattn {

// Holds off pthread_cancel until the end of a call. The unwinding of a cancelled thread may neither be caught nor
// meet a noexcept function, waiting on a condition variable among them, or the process is aborted.
class CancellationHold {
 public:
  CancellationHold() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancellationHold() { pthread_setcancelstate(before_, nullptr); }
  CancellationHold(const CancellationHold &) = delete;
  CancellationHold &operator=(const CancellationHold &) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// Runs body() and turns whatever it throws into a status.
template <typename Body>
Status barrier(Body &&body) {
  const CancellationHold hold;
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return fail(FLASHATTN_STATUS_OUT_OF_MEMORY, "host memory ran out");
  } catch (const std::system_error &error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      return fail(FLASHATTN_STATUS_OUT_OF_THREADS, "the system refused a thread: %s", error.what());
    }
    return fail(FLASHATTN_STATUS_INTERNAL, "system error %d: %s", error.code().value(), error.what());
  } catch (const std::exception &error) {
    return fail(FLASHATTN_STATUS_INTERNAL, "internal error: %s", error.what());
  } catch (...) {
    return fail(FLASHATTN_STATUS_INTERNAL, "internal error: an exception of unknown type");
  }
}

}  // namespace flashattn
