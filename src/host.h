// SPDX-License-Identifier: Apache-2.0
// What a handle lends its backend: the caller's allocator and log, or the library's own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "flashattn.h"

namespace flashattn {

class Host {
 public:
  // alloc and free both set or both null, log may be null; environment_log_level is what FLASHATTN_LOG asks
  // for.
  Host(const flashattn_options_t &options, int32_t environment_log_level) noexcept;

  // Host memory, or nullptr. size > 0, alignment a power of two.
  void *allocate(size_t size, size_t alignment) const noexcept;
  void release(void *memory, size_t size, size_t alignment) const noexcept;

  // To the callback, else to standard error when FLASHATTN_LOG asks for this level. Never from run.
  bool logs(int32_t level) const noexcept;
  [[gnu::format(printf, 3, 4)]] void log(int32_t level, const char *format, ...) const noexcept;

 private:
  flashattn_log_fn log_;
  void *log_user_;
  flashattn_alloc_fn alloc_;
  flashattn_free_fn free_;
  void *alloc_user_;
  int32_t environment_log_level_;
};

}  // namespace flashattn
