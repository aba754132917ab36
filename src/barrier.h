// SPDX-License-Identifier: Apache-2.0
// The exception barrier: every entry point that can meet an exception runs its body through barrier().
#pragma once

#include <cxxabi.h>

#include <exception>
#include <new>
#include <system_error>

#include "src/status.h"

namespace flashattn {

// Runs body() and turns whatever it throws into a status. Thread cancellation passes through: the C library
// aborts the process when a cancelled thread's unwinding is stopped.
template <typename Body>
Status barrier(Body &&body) {
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
  } catch (abi::__forced_unwind &) {
    throw;
  } catch (...) {
    return fail(FLASHATTN_STATUS_INTERNAL, "internal error: an exception of unknown type");
  }
}

}  // namespace flashattn
