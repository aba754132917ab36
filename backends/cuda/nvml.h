// SPDX-License-Identifier: Apache-2.0
// The few NVML entry points that tell which GPUs there are. Source: NVML API reference.
#pragma once

#include <cstdint>

namespace flashattn::cuda {

using NvmlDevice = void *;

struct NvmlMemory {
  unsigned long long total, free, used;  // bytes
};

struct Nvml {
  int (*nvmlInit)();
  int (*nvmlShutdown)();
  int (*nvmlDeviceGetCount)(unsigned *count);
  int (*nvmlDeviceGetHandleByIndex)(unsigned index, NvmlDevice *device);
  int (*nvmlDeviceGetUuid)(NvmlDevice device, char *uuid, unsigned size);
  int (*nvmlDeviceGetName)(NvmlDevice device, char *name, unsigned size);
  int (*nvmlDeviceGetMemoryInfo)(NvmlDevice device, NvmlMemory *memory);
  int (*nvmlDeviceGetCudaComputeCapability)(NvmlDevice device, int *major, int *minor);
  int (*nvmlDeviceGetNumGpuCores)(NvmlDevice device, unsigned *cores);  // optional, from 510
};

// An NVML session, open as long as the object lives; null when there is no NVML or it has no driver to talk
// to.
class NvmlSession {
 public:
  NvmlSession();
  ~NvmlSession();
  NvmlSession(const NvmlSession &) = delete;
  NvmlSession &operator=(const NvmlSession &) = delete;

  explicit operator bool() const { return nvml_ != nullptr; }
  const Nvml *operator->() const { return nvml_; }

 private:
  const Nvml *nvml_ = nullptr;
};

}  // namespace flashattn::cuda
