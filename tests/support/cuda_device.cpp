// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cuda_device.h"

#include <dlfcn.h>

#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace flashattn::test {
namespace {

// CUDA Driver API: CUresult and CUdevice are int, CUcontext and CUstream pointers, CUdeviceptr 64 bits wide.
using Result = int;
using Pointer = unsigned long long;

constexpr Result kOutOfMemory = 2;
constexpr unsigned kNonBlocking = 1;  // a stream that does not wait for stream 0: nothing may rely on that

Pointer pointer_of(const void *memory) {
  return reinterpret_cast<Pointer>(memory);
}

class CudaDevice final : public Device {
 public:
  CudaDevice() {
    library_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) throw std::runtime_error(dlerror());
    check("cuInit", find<Result(unsigned)>("cuInit")(0));
    check("cuDevicePrimaryCtxRetain", find<Result(void **, int)>("cuDevicePrimaryCtxRetain")(&context_, 0));
    check("cuCtxSetCurrent", find<Result(void *)>("cuCtxSetCurrent")(context_));
    check("cuStreamCreate", find<Result(void **, unsigned)>("cuStreamCreate")(&stream_, kNonBlocking));
    allocate_ = find<Result(Pointer *, size_t)>("cuMemAlloc_v2");
    free_ = find<Result(Pointer)>("cuMemFree_v2");
    upload_ = find<Result(Pointer, const void *, size_t, void *)>("cuMemcpyHtoDAsync_v2");
    download_ = find<Result(void *, Pointer, size_t, void *)>("cuMemcpyDtoHAsync_v2");
    synchronize_ = find<Result(void *)>("cuStreamSynchronize");
  }

  // Freed memory is kept for the next buffer of its size: an allocation costs more than most cases.
  void *allocate(size_t size) override {
    size_t room = 4096;
    while (room < size) room += room / 2 / 256 * 256;
    std::vector<void *> &spare = spare_[room];
    void *memory = nullptr;
    if (!spare.empty()) {
      memory = spare.back();
      spare.pop_back();
    } else {
      Pointer pointer = 0;
      const Result result = allocate_(&pointer, room);
      if (result == kOutOfMemory) throw std::bad_alloc();
      check("cuMemAlloc", result);
      memory = reinterpret_cast<void *>(pointer);  // NOLINT(performance-no-int-to-ptr)
    }
    room_of_[memory] = room;
    return memory;
  }
  void release(void *memory) override {
    const size_t room = room_of_[memory];
    if (room > kKeep) {
      free_(pointer_of(memory));
    } else {
      spare_[room].push_back(memory);
    }
    room_of_.erase(memory);
  }

  void upload(void *device, const void *host, size_t size) override {
    if (size > 0) check("cuMemcpyHtoDAsync", upload_(pointer_of(device), host, size, stream_));
    synchronize();
  }
  void download(void *host, const void *device, size_t size) override {
    if (size > 0) check("cuMemcpyDtoHAsync", download_(host, pointer_of(device), size, stream_));
    synchronize();
  }
  void *stream() override { return stream_; }
  void synchronize() override { check("cuStreamSynchronize", synchronize_(stream_)); }
  bool host_memory() const override { return false; }

 private:
  static constexpr size_t kKeep = size_t{64} << 20;

  static void check(const char *function, Result result) {
    if (result == 0) return;
    throw std::runtime_error(std::string(function) + " failed with CUresult " + std::to_string(result));
  }

  template <class Function>
  Function *find(const char *name) const {
    auto *function = reinterpret_cast<Function *>(dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
    return function;
  }

  void *library_ = nullptr;
  void *context_ = nullptr;
  void *stream_ = nullptr;
  Result (*allocate_)(Pointer *, size_t) = nullptr;
  Result (*free_)(Pointer) = nullptr;
  Result (*upload_)(Pointer, const void *, size_t, void *) = nullptr;
  Result (*download_)(void *, Pointer, size_t, void *) = nullptr;
  Result (*synchronize_)(void *) = nullptr;
  std::map<size_t, std::vector<void *>> spare_;
  std::map<void *, size_t> room_of_;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device() {
  return std::make_unique<CudaDevice>();
}

}  // namespace flashattn::test
