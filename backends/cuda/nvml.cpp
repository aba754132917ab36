// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/nvml.h"

#include <iterator>

#include "backends/driver_table.h"

namespace flashattn::cuda {
namespace {

constexpr DriverMark kRequired = DriverMark::kRequired;
constexpr DriverEntry kEntries[] = {
    {"nvmlInit_v2", offsetof(Nvml, nvmlInit), kRequired},
    {"nvmlShutdown", offsetof(Nvml, nvmlShutdown), kRequired},
    {"nvmlDeviceGetCount_v2", offsetof(Nvml, nvmlDeviceGetCount), kRequired},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(Nvml, nvmlDeviceGetHandleByIndex), kRequired},
    {"nvmlDeviceGetUUID", offsetof(Nvml, nvmlDeviceGetUuid), kRequired},
    {"nvmlDeviceGetName", offsetof(Nvml, nvmlDeviceGetName), kRequired},
    {"nvmlDeviceGetMemoryInfo", offsetof(Nvml, nvmlDeviceGetMemoryInfo), kRequired},
    {"nvmlDeviceGetCudaComputeCapability", offsetof(Nvml, nvmlDeviceGetCudaComputeCapability), kRequired},
    {"nvmlDeviceGetNumGpuCores", offsetof(Nvml, nvmlDeviceGetNumGpuCores), DriverMark::kOptional},
};
constexpr const char *kLibraries[] = {"libnvidia-ml.so.1"};

DriverTable<Nvml> g_nvml({"NVML", "driver 525", kLibraries, std::size(kLibraries), kEntries,
                          std::size(kEntries)});

}  // namespace

NvmlSession::NvmlSession() {
  const SavedError before;
  const Nvml *nvml = nullptr;
  if (g_nvml.get(&nvml) == kOk && nvml->nvmlInit() == 0) nvml_ = nvml;
  before.restore();
}

NvmlSession::~NvmlSession() {
  if (nvml_ != nullptr) nvml_->nvmlShutdown();
}

}  // namespace flashattn::cuda
