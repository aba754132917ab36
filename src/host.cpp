// SPDX-License-Identifier: Apache-2.0
#include "src/host.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "src/status.h"

namespace flashattn {
namespace {

constexpr size_t kMaxMessage = 1024;

const char *level_name(int32_t level) {
  switch (level) {
    case FLASHATTN_LOG_ERROR:
      return "error";
    case FLASHATTN_LOG_INFO:
      return "info";
    default:
      return "debug";
  }
}

}  // namespace

Host::Host(const flashattn_options_t &options, int32_t environment_log_level) noexcept
    : log_(options.log),
      log_user_(options.log_user),
      alloc_(options.alloc),
      free_(options.free),
      alloc_user_(options.alloc_user),
      environment_log_level_(environment_log_level) {}

void *Host::allocate(size_t size, size_t alignment) const noexcept {
  if (alloc_ != nullptr) {
    try {
      void *memory = alloc_(alloc_user_, size, alignment);
      if (reinterpret_cast<uintptr_t>(memory) % alignment == 0) return memory;
      // An allocator that breaks its contract is treated as one that is out of memory.
      free_(alloc_user_, memory, size, alignment);
    } catch (...) {
      return nullptr;
    }
    return nullptr;
  }
  // posix_memalign wants at least the alignment of a pointer.
  void *memory = nullptr;
  const size_t at_least = alignment < sizeof(void *) ? sizeof(void *) : alignment;
  return posix_memalign(&memory, at_least, size) == 0 ? memory : nullptr;
}

void Host::release(void *memory, size_t size, size_t alignment) const noexcept {
  if (memory == nullptr) return;
  if (free_ == nullptr) {
    std::free(memory);
    return;
  }
  try {
    free_(alloc_user_, memory, size, alignment);
  } catch (...) {  // A caller's callback must not throw; nothing here could help it.
    return;
  }
}

bool Host::logs(int32_t level) const noexcept {
  return log_ != nullptr || level <= environment_log_level_;
}

void Host::log(int32_t level, const char *format, ...) const noexcept {
  if (!logs(level)) return;
  char message[kMaxMessage];
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  if (log_ == nullptr) {
    std::fprintf(stderr, "flashattn %s: %s\n", level_name(level), message);
    return;
  }
  // The callback may use the library on other handles; what it breaks there is not the error being reported.
  const SavedError before;
  try {
    log_(log_user_, level, message);
  } catch (...) {  // As in release.
    before.restore();
    return;
  }
  before.restore();
}

}  // namespace flashattn
