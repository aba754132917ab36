// SPDX-License-Identifier: Apache-2.0
// Where the tensors of a test live. The conformance table is written once; a backend whose memory the host
// cannot touch brings its own Device and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace flashattn::test {

class Device {
 public:
  virtual ~Device() = default;

  // Memory the backend can read and write, at least 256-byte aligned. Throws std::bad_alloc.
  virtual void *allocate(size_t size) = 0;
  virtual void release(void *memory) = 0;

  // Copies that are complete on return.
  virtual void upload(void *device, const void *host, size_t size) = 0;
  virtual void download(void *host, const void *device, size_t size) = 0;

  // What calls are enqueued on, and waiting for it.
  virtual void *stream() = 0;
  virtual void synchronize() = 0;

  // Whether host code may read and write allocate()'s memory directly.
  virtual bool host_memory() const = 0;
};

// The device's memory is the host's: copies are memcpy.
std::unique_ptr<Device> make_host_device();

// The Device of device 0 of a FLASHATTN_BACKEND_*, or nullptr when this build has none for it.
std::unique_ptr<Device> make_device(int32_t backend);

}  // namespace flashattn::test
