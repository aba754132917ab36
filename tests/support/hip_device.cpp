// SPDX-License-Identifier: Apache-2.0
#include "tests/support/hip_device.h"

#include <dlfcn.h>

#include <new>
#include <stdexcept>
#include <string>

namespace flashattn::test {
namespace {

// HIP runtime API: hipError_t is int, hipStream_t a pointer.
constexpr int kOutOfMemory = 2;
constexpr unsigned kNonBlocking = 1;  // a stream that does not wait for stream 0: nothing may rely on that
constexpr int kHostToDevice = 1;
constexpr int kDeviceToHost = 2;

class HipDevice final : public Device {
 public:
  HipDevice() {
    for (const char *name : {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"}) {
      if (library_ == nullptr) library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (library_ == nullptr) throw std::runtime_error("there is no libamdhip64");
    check("hipInit", find<int(unsigned)>("hipInit")(0));
    check("hipSetDevice", find<int(int)>("hipSetDevice")(0));
    check("hipStreamCreateWithFlags",
          find<int(void **, unsigned)>("hipStreamCreateWithFlags")(&stream_, kNonBlocking));
    allocate_ = find<int(void **, size_t)>("hipMalloc");
    free_ = find<int(void *)>("hipFree");
    copy_ = find<int(void *, const void *, size_t, int, void *)>("hipMemcpyAsync");
    synchronize_ = find<int(void *)>("hipStreamSynchronize");
  }

  void *allocate(size_t size) override {
    void *memory = nullptr;
    const int result = allocate_(&memory, size > 0 ? size : 1);
    if (result == kOutOfMemory) throw std::bad_alloc();
    check("hipMalloc", result);
    return memory;
  }
  void release(void *memory) override { free_(memory); }

  void upload(void *device, const void *host, size_t size) override {
    if (size > 0) check("hipMemcpyAsync", copy_(device, host, size, kHostToDevice, stream_));
    synchronize();
  }
  void download(void *host, const void *device, size_t size) override {
    if (size > 0) check("hipMemcpyAsync", copy_(host, device, size, kDeviceToHost, stream_));
    synchronize();
  }
  void *stream() override { return stream_; }
  void synchronize() override { check("hipStreamSynchronize", synchronize_(stream_)); }
  bool host_memory() const override { return false; }

 private:
  static void check(const char *function, int result) {
    if (result == 0) return;
    throw std::runtime_error(std::string(function) + " failed with hipError_t " + std::to_string(result));
  }

  template <class Function>
  Function *find(const char *name) const {
    auto *function = reinterpret_cast<Function *>(dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(std::string("libamdhip64 has no ") + name);
    return function;
  }

  void *library_ = nullptr;
  void *stream_ = nullptr;
  int (*allocate_)(void **, size_t) = nullptr;
  int (*free_)(void *) = nullptr;
  int (*copy_)(void *, const void *, size_t, int, void *) = nullptr;
  int (*synchronize_)(void *) = nullptr;
};

}  // namespace

std::unique_ptr<Device> make_hip_device() {
  return std::make_unique<HipDevice>();
}

}  // namespace flashattn::test
