// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/memory.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "flashattn.h"
#include "tools/cli/cuda_memory.h"
#include "tools/cli/error.h"

namespace flashattn::cli {

namespace {

class HostMemory final : public Memory {
 public:
  void *allocate(size_t size) override {
    constexpr size_t kAlignment = 256;
    void *memory = std::aligned_alloc(kAlignment, (size / kAlignment + 1) * kAlignment);
    if (memory == nullptr) throw Failure("no memory for " + std::to_string(size) + " bytes");
    return memory;
  }
  void release(void *memory) override { std::free(memory); }
  void upload(void *device, const void *host, size_t size) override {
    if (size > 0) std::memcpy(device, host, size);
  }
  void download(void *host, const void *device, size_t size) override {
    if (size > 0) std::memcpy(host, device, size);
  }
  void synchronize() override {}
};

}  // namespace

std::unique_ptr<Memory> make_memory(int32_t backend, int32_t device) {
  if (backend == FLASHATTN_BACKEND_CPU) return std::make_unique<HostMemory>();
  if (backend == FLASHATTN_BACKEND_CUDA) return make_cuda_memory(device);
  throw Failure("backend is " + std::to_string(backend) +
                "; this tool can place tensors for cpu and cuda only");
}

}  // namespace flashattn::cli
