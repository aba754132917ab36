// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/cuda_memory.h"

#include <dlfcn.h>

#include <string>

#include "tools/cli/error.h"

namespace flashattn::cli {

namespace {

// CUDA Driver API: CUresult and CUdevice are int, CUcontext a pointer, CUdeviceptr 64 bits wide here.
using Result = int;
using Context = void *;
using DevicePointer = unsigned long long;

class CudaMemory final : public Memory {
 public:
  explicit CudaMemory(int32_t device) : device_(device) {
    library_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) throw Failure("libcuda.so.1 cannot be opened: " + std::string(dlerror()));
    release_context_ = find<Result(int)>("cuDevicePrimaryCtxRelease_v2");
    check("cuInit", find<Result(unsigned)>("cuInit")(0));
    check("cuDevicePrimaryCtxRetain",
          find<Result(Context *, int)>("cuDevicePrimaryCtxRetain")(&context_, device));
    check("cuCtxSetCurrent", find<Result(Context)>("cuCtxSetCurrent")(context_));
    allocate_ = find<Result(DevicePointer *, size_t)>("cuMemAlloc_v2");
    release_ = find<Result(DevicePointer)>("cuMemFree_v2");
    upload_ = find<Result(DevicePointer, const void *, size_t)>("cuMemcpyHtoD_v2");
    download_ = find<Result(void *, DevicePointer, size_t)>("cuMemcpyDtoH_v2");
    synchronize_ = find<Result()>("cuCtxSynchronize");
  }
  ~CudaMemory() override { release_context_(device_); }
  CudaMemory(const CudaMemory &) = delete;
  CudaMemory &operator=(const CudaMemory &) = delete;

  void *allocate(size_t size) override {
    DevicePointer pointer = 0;
    check("cuMemAlloc", allocate_(&pointer, size + 1));  // of zero bytes there is no allocation
    return reinterpret_cast<void *>(pointer);            // NOLINT(performance-no-int-to-ptr)
  }
  void release(void *memory) override { release_(pointer_of(memory)); }
  void upload(void *device, const void *host, size_t size) override {
    if (size > 0) check("cuMemcpyHtoD", upload_(pointer_of(device), host, size));
  }
  void download(void *host, const void *device, size_t size) override {
    synchronize();
    if (size > 0) check("cuMemcpyDtoH", download_(host, pointer_of(device), size));
  }
  void synchronize() override { check("cuCtxSynchronize", synchronize_()); }

 private:
  static DevicePointer pointer_of(const void *memory) { return reinterpret_cast<DevicePointer>(memory); }

  static void check(const char *function, Result result) {
    if (result != 0) throw Failure(std::string(function) + " failed with CUresult " + std::to_string(result));
  }

  template <class Function>
  Function *find(const char *name) const {
    auto *function = reinterpret_cast<Function *>(dlsym(library_, name));
    if (function == nullptr) throw Failure(std::string("libcuda.so.1 has no ") + name);
    return function;
  }

  void *library_ = nullptr;
  int32_t device_;
  Context context_ = nullptr;
  Result (*release_context_)(int) = nullptr;
  Result (*allocate_)(DevicePointer *, size_t) = nullptr;
  Result (*release_)(DevicePointer) = nullptr;
  Result (*upload_)(DevicePointer, const void *, size_t) = nullptr;
  Result (*download_)(void *, DevicePointer, size_t) = nullptr;
  Result (*synchronize_)() = nullptr;
};

}  // namespace

std::unique_ptr<Memory> make_cuda_memory(int32_t device) {
  return std::make_unique<CudaMemory>(device);
}

}  // namespace flashattn::cli
