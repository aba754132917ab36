// SPDX-License-Identifier: Apache-2.0
// One routine that both counts and places: run it over a null Carver for the size, over memory for the
// pointers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flashattn::cpu {

// Everything carved begins on a cache line of its own, which is also the widest vector.
inline constexpr size_t kCarveAlignment = 64;

class Carver {
 public:
  // memory is aligned to kCarveAlignment, or nullptr to count.
  explicit Carver(void *memory) : memory_(static_cast<char *>(memory)) {}

  // Room for count elements, count >= 0; nullptr when counting.
  template <typename T>
  T *take(int64_t count) {
    char *at = memory_ == nullptr ? nullptr : memory_ + size_;
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    size_ += (bytes + kCarveAlignment - 1) / kCarveAlignment * kCarveAlignment;
    return reinterpret_cast<T *>(at);
  }

  // Bytes taken so far.
  size_t size() const { return size_; }

 private:
  char *memory_;
  size_t size_ = 0;
};

}  // namespace flashattn::cpu
