// SPDX-License-Identifier: Apache-2.0
// A libnvidia-ml.so.1 that lists the fake driver's two devices.
#include <cstdio>

#define FAKE_API extern "C" __attribute__((visibility("default")))

FAKE_API int nvmlInit_v2() {
  return 0;
}
FAKE_API int nvmlShutdown() {
  return 0;
}
FAKE_API int nvmlDeviceGetCount_v2(unsigned *count) {
#ifdef FAKE_CUDA_NO_DEVICE
  *count = 0;
#else
  *count = 2;
#endif
  return 0;
}
FAKE_API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  static char handles[2];
  if (index > 1) return 2;
  *device = handles + index;
  return 0;
}
namespace {
int index_of(void *device) {
  void *first = nullptr;
  nvmlDeviceGetHandleByIndex_v2(0, &first);
  return device == first ? 0 : 1;
}
}  // namespace
FAKE_API int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size) {
  std::snprintf(uuid, size, "GPU-%d0000000-fake", index_of(device) + 1);
  return 0;
}
FAKE_API int nvmlDeviceGetName(void *device, char *name, unsigned size) {
  std::snprintf(name, size, "Fake CUDA %d", index_of(device));
  return 0;
}
FAKE_API int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
  memory[0] = (index_of(device) + 1ULL) << 30;
  return 0;
}
FAKE_API int nvmlDeviceGetCudaComputeCapability([[maybe_unused]] void *device, int *major, int *minor) {
#ifdef FAKE_CUDA_HOPPER
  *major = 9;
  *minor = 0;
#else
  *major = 8;
  *minor = index_of(device) == 0 ? 0 : 9;
#endif
  return 0;
}
FAKE_API int nvmlDeviceGetNumGpuCores(void *device, unsigned *cores) {
  *cores = index_of(device) == 0 ? 108 * 64 : 142 * 128;
  return 0;
}
