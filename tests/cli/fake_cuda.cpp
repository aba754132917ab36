// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 whose device memory is host memory: what the tool's copies are tested with where there is no
// GPU. It refuses what the driver refuses: calls before cuInit, without a current context, or on memory it
// did not give. CUdeviceptr is an integer as wide as a pointer, and is passed as one.
#include <cstdlib>
#include <cstring>
#include <map>

namespace {

bool initialized = false;
bool current = false;
int retained = 0;
std::map<const void *, size_t> allocations;

constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kNotInitialized = 3;
constexpr int kInvalidDevice = 101;
constexpr int kInvalidContext = 201;

int ready() {
  return !initialized ? kNotInitialized : current ? kSuccess : kInvalidContext;
}

bool holds(const void *pointer, size_t size) {
  const auto found = allocations.find(pointer);
  return found != allocations.end() && size <= found->second;
}

}  // namespace

extern "C" {

int cuInit(unsigned flags) {
  initialized = flags == 0;
  return initialized ? kSuccess : kInvalidValue;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
  if (!initialized) return kNotInitialized;
  if (device != 0) return kInvalidDevice;
  ++retained;
  *context = &retained;
  return kSuccess;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  if (device != 0 || retained == 0) return kInvalidContext;
  --retained;
  return kSuccess;
}

int cuCtxSetCurrent(void *context) {
  current = context == &retained;
  return current ? kSuccess : kInvalidContext;
}

int cuCtxSynchronize() {
  return ready();
}

int cuMemAlloc_v2(void **pointer, size_t size) {
  if (ready() != kSuccess) return ready();
  if (size == 0) return kInvalidValue;
  *pointer = std::aligned_alloc(256, (size + 255) / 256 * 256);
  allocations[*pointer] = size;
  return kSuccess;
}

int cuMemFree_v2(void *pointer) {
  if (allocations.erase(pointer) == 0) return kInvalidValue;
  std::free(pointer);
  return kSuccess;
}

int cuMemcpyHtoD_v2(void *to, const void *from, size_t size) {
  if (ready() != kSuccess) return ready();
  if (!holds(to, size)) return kInvalidValue;
  std::memcpy(to, from, size);
  return kSuccess;
}

int cuMemcpyDtoH_v2(void *to, const void *from, size_t size) {
  if (ready() != kSuccess) return ready();
  if (!holds(from, size)) return kInvalidValue;
  std::memcpy(to, from, size);
  return kSuccess;
}

// For the test: what is still held.
int fake_cuda_held() {
  return static_cast<int>(allocations.size()) + retained;
}

}  // extern "C"
