// SPDX-License-Identifier: Apache-2.0
#include "tests/support/guarded_buffer.h"

#include <cstring>

#include "tests/support/dtype.h"

#if defined(__SANITIZE_ADDRESS__)
#define FLASHATTN_TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FLASHATTN_TEST_ASAN 1
#endif
#endif
#ifdef FLASHATTN_TEST_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace flashattn::test {
namespace {

// Under AddressSanitizer even a read of a guard is an error; without it a read shows by its NaN only.
void fence([[maybe_unused]] Device &device, [[maybe_unused]] void *memory, [[maybe_unused]] size_t size,
           [[maybe_unused]] bool up) {
#ifdef FLASHATTN_TEST_ASAN
  if (!device.host_memory()) return;
  if (up) {
    ASAN_POISON_MEMORY_REGION(memory, size);
  } else {
    ASAN_UNPOISON_MEMORY_REGION(memory, size);
  }
#endif
}

}  // namespace

GuardedBuffer::GuardedBuffer(Device &device, size_t size, size_t offset)
    : device_(device),
      size_(size),
      front_(kGuard + offset),
      image_((kGuard + offset + size + kGuard + 1) & ~size_t{1}) {
  memory_ = device_.allocate(image_.size());
  for (size_t i = 0; i < image_.size(); i += sizeof(kPoison))
    std::memcpy(&image_[i], &kPoison, sizeof(kPoison));
}

GuardedBuffer::~GuardedBuffer() {
  fence(device_, memory_, image_.size(), false);
  device_.release(memory_);
}

void GuardedBuffer::upload() {
  fence(device_, memory_, image_.size(), false);
  device_.upload(memory_, image_.data(), image_.size());
  fence(device_, memory_, front_, true);
  fence(device_, static_cast<uint8_t *>(memory_) + front_ + size_, image_.size() - front_ - size_, true);
}

void GuardedBuffer::download() {
  result_.resize(image_.size());
  fence(device_, memory_, image_.size(), false);
  device_.download(result_.data(), memory_, image_.size());
}

std::string GuardedBuffer::unexpected_write(const std::vector<uint8_t> &written, size_t element_size) const {
  const auto differs = [this](size_t begin, size_t end) {
    return begin < end && std::memcmp(&image_[begin], &result_[begin], end - begin) != 0;
  };
  if (differs(0, front_)) return "the guard before the buffer was overwritten";
  if (differs(front_ + size_, image_.size())) return "the guard after the buffer was overwritten";
  if (written.empty()) return differs(front_, front_ + size_) ? "the buffer was written to" : "";
  for (size_t i = 0; i < written.size(); ++i) {
    const size_t begin = front_ + i * element_size;
    if (written[i] == 0 && differs(begin, begin + element_size)) {
      return "element " + std::to_string(i) + " of the buffer belongs to no result but was overwritten";
    }
  }
  return "";
}

}  // namespace flashattn::test
