// SPDX-License-Identifier: Apache-2.0
// The caller's allocator behind the standard allocator interface and behind objects that count themselves.
#pragma once

#include <cstddef>
#include <new>
#include <utility>

#include "src/host.h"

namespace flashattn {

// For std::allocate_shared. Outlived by its Host.
template <typename T>
class HostAllocator {
 public:
  using value_type = T;

  explicit HostAllocator(const Host &host) noexcept : host_(&host) {}
  template <typename U>
  HostAllocator(const HostAllocator<U> &other) noexcept
      : host_(&other.host()) {}  // NOLINT: rebinding is implicit

  T *allocate(size_t count) {
    void *memory = host_->allocate(count * sizeof(T), alignof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T *>(memory);
  }
  void deallocate(T *memory, size_t count) noexcept { host_->release(memory, count * sizeof(T), alignof(T)); }

  const Host &host() const noexcept { return *host_; }
  template <typename U>
  bool operator==(const HostAllocator<U> &other) const noexcept {
    return host_ == &other.host();
  }
  template <typename U>
  bool operator!=(const HostAllocator<U> &other) const noexcept {
    return !(*this == other);
  }

 private:
  const Host *host_;
};

// Makes a T in the caller's memory; throws std::bad_alloc when there is none.
template <typename T, typename... Arguments>
T *host_new(const Host &host, Arguments &&...arguments) {
  void *memory = host.allocate(sizeof(T), alignof(T));
  if (memory == nullptr) throw std::bad_alloc();
  try {
    return ::new (memory) T(std::forward<Arguments>(arguments)...);
  } catch (...) {
    host.release(memory, sizeof(T), alignof(T));
    throw;
  }
}

// The host may live inside the object: it is copied before the object goes.
template <typename T>
void host_delete(Host host, T *object) noexcept {
  object->~T();
  host.release(object, sizeof(T), alignof(T));
}

}  // namespace flashattn
