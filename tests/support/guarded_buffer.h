// SPDX-License-Identifier: Apache-2.0
// A device buffer between two guards, with an image of it on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/device.h"

namespace flashattn::test {

// Payload and guards start out as kPoison, so that whatever reads what it must not read meets NaN, and
// whatever writes what it must not write is seen bit for bit.
class GuardedBuffer {
 public:
  // The payload begins `offset` bytes past a 256-byte boundary. It is host image only until upload().
  GuardedBuffer(Device &device, size_t size, size_t offset = 0);
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer &) = delete;
  GuardedBuffer &operator=(const GuardedBuffer &) = delete;

  void *device_data() { return static_cast<uint8_t *>(memory_) + front_; }
  // What upload() sends.
  uint8_t *image() { return image_.data() + front_; }
  const uint8_t *image() const { return image_.data() + front_; }
  // What download() fetched.
  const uint8_t *result() const { return result_.data() + front_; }
  size_t size() const { return size_; }

  void upload();
  void download();

  // After download(): the first difference between image and result outside `written` (one byte per element
  // of element_size bytes; empty: nothing may differ), as text; "" when there is none.
  std::string unexpected_write(const std::vector<uint8_t> &written, size_t element_size) const;

 private:
  static constexpr size_t kGuard = 256;
  Device &device_;
  size_t size_;
  size_t front_;
  void *memory_;
  std::vector<uint8_t> image_;
  std::vector<uint8_t> result_;
};

}  // namespace flashattn::test
