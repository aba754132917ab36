// SPDX-License-Identifier: Apache-2.0
// The rules of struct_size: how structs of older and newer callers are read and written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "src/status.h"

namespace flashattn {

// A struct holds its size and at least one field. The upper bound keeps an uninitialised struct_size from
// sending the library through memory that is not the caller's.
inline constexpr uint32_t kMinStructSize = 8;
inline constexpr uint32_t kMaxStructSize = 65536;

// STRUCT_SIZE unless size may be the struct_size of `name`.
Status check_struct_size(const char *name, uint32_t size);

// NEWER_STRUCT unless the bytes of a struct of struct_size `size` from offset `known` on are all zero.
Status check_struct_tail(const char *name, const void *data, size_t known, uint32_t size);

// Reads a caller's struct into full size: fields it does not have are zero. `name` is the parameter's name.
template <typename T>
Status read_struct(const char *name, const T *source, T *full) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (source == nullptr) return fail(FLASHATTN_STATUS_NULL_POINTER, "%s is NULL", name);
  // The caller's struct may end before T does, so only its bytes are looked at.
  uint32_t size = 0;
  std::memcpy(&size, source, sizeof size);
  if (Status status = check_struct_size(name, size); status != kOk) return status;
  if (Status status = check_struct_tail(name, source, sizeof(T), size); status != kOk) return status;
  const size_t given = size < sizeof(T) ? size : sizeof(T);
  std::memset(full, 0, sizeof(T));
  std::memcpy(full, source, given);
  full->struct_size = sizeof(T);
  return kOk;
}

// Checks that an output struct can be written.
template <typename T>
Status check_output_struct(const char *name, const T *target) {
  if (target == nullptr) return fail(FLASHATTN_STATUS_NULL_POINTER, "%s is NULL", name);
  uint32_t size = 0;
  std::memcpy(&size, target, sizeof size);
  return check_struct_size(name, size);
}

// Writes the prefix of `full` that fits the caller's struct and zeroes the tail this library does not know.
// struct_size stays the caller's. The target has passed check_output_struct.
template <typename T>
void write_struct(const T &full, T *target) {
  static_assert(std::is_trivially_copyable_v<T>);
  uint32_t size = 0;
  std::memcpy(&size, target, sizeof size);
  const size_t filled = size < sizeof(T) ? size : sizeof(T);
  char *bytes = reinterpret_cast<char *>(target);
  std::memcpy(bytes + sizeof size, reinterpret_cast<const char *>(&full) + sizeof size, filled - sizeof size);
  std::memset(bytes + filled, 0, size - filled);
}

// A zeroed full-size struct.
template <typename T>
T make_struct() {
  T full;
  std::memset(&full, 0, sizeof full);
  full.struct_size = sizeof(T);
  return full;
}

}  // namespace flashattn
