// SPDX-License-Identifier: Apache-2.0
// Memory that a device can read, and copies to and from it. The library takes pointers only; who calls it
// owns memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace flashattn::cli {

class Memory {
 public:
  virtual ~Memory() = default;

  // Aligned to 256 bytes at least. Throws Failure. size may be 0.
  virtual void *allocate(size_t size) = 0;
  virtual void release(void *memory) = 0;
  virtual void upload(void *device, const void *host, size_t size) = 0;
  // Waits for enqueued work first.
  virtual void download(void *host, const void *device, size_t size) = 0;
  virtual void synchronize() = 0;
};

// For a handle of the backend (FLASHATTN_BACKEND_*) on the device. Throws Failure where the tool knows none.
std::unique_ptr<Memory> make_memory(int32_t backend, int32_t device);

// One allocation.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Memory &memory, size_t size) : memory_(&memory), data_(memory.allocate(size)) {}
  Buffer(Buffer &&other) noexcept : memory_(other.memory_), data_(other.data_) { other.data_ = nullptr; }
  Buffer &operator=(Buffer &&other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    return *this;
  }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  ~Buffer() {
    if (data_ != nullptr) memory_->release(data_);
  }

  void *data() const { return data_; }

 private:
  Memory *memory_ = nullptr;
  void *data_ = nullptr;
};

}  // namespace flashattn::cli
