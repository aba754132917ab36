// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device.h"

#include <cstring>
#include <new>

#include "flashattn.h"
#include "tests/support/cuda_device.h"
#include "tests/support/hip_device.h"

namespace flashattn::test {
namespace {

constexpr std::align_val_t kAlignment{256};

class HostDevice final : public Device {
 public:
  void *allocate(size_t size) override { return ::operator new(size, kAlignment); }
  void release(void *memory) override { ::operator delete(memory, kAlignment); }
  void upload(void *device, const void *host, size_t size) override {
    if (size > 0) std::memcpy(device, host, size);
  }
  void download(void *host, const void *device, size_t size) override {
    if (size > 0) std::memcpy(host, device, size);
  }
  void *stream() override { return nullptr; }
  void synchronize() override {}
  bool host_memory() const override { return true; }
};

}  // namespace

std::unique_ptr<Device> make_host_device() {
  return std::make_unique<HostDevice>();
}

std::unique_ptr<Device> make_device(int32_t backend) {
  if (backend == FLASHATTN_BACKEND_CPU) return make_host_device();
  if (backend == FLASHATTN_BACKEND_CUDA) return make_cuda_device();
  if (backend == FLASHATTN_BACKEND_HIP) return make_hip_device();
  return nullptr;
}

}  // namespace flashattn::test
