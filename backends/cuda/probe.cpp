// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/probe.h"

#include <dirent.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "backends/cuda/nvml.h"

namespace flashattn::cuda {
namespace {

constexpr char kProcGpus[] = "/proc/driver/nvidia/gpus";

int32_t count_proc() {
  DIR *directory = opendir(kProcGpus);
  if (directory == nullptr) return 0;
  int32_t count = 0;
  while (const dirent *entry = readdir(directory)) count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(directory);
  return count;
}

int32_t count_all(const NvmlSession &nvml) {
  unsigned count = 0;
  if (nvml && nvml->nvmlDeviceGetCount(&count) == 0) return static_cast<int32_t>(count);
  return count_proc();
}

// Devices by the start of their UUID, as CUDA_VISIBLE_DEVICES allows; -1 when none or several match.
int32_t find_uuid(const NvmlSession &nvml, const std::string &start, int32_t count) {
  if (!nvml) return -1;
  int32_t found = -1;
  for (int32_t index = 0; index < count; ++index) {
    NvmlDevice device = nullptr;
    char uuid[96] = "";
    if (nvml->nvmlDeviceGetHandleByIndex(static_cast<unsigned>(index), &device) != 0) continue;
    if (nvml->nvmlDeviceGetUuid(device, uuid, sizeof uuid) != 0) continue;
    if (std::strncmp(uuid, start.c_str(), start.size()) != 0) continue;
    if (found >= 0) return -1;
    found = index;
  }
  return found;
}

// NVML's index of each device the driver will show, in the driver's order. "MIG-..." names a part of a
// device, which NVML lists elsewhere: it is taken to exist, as index -1.
std::vector<int32_t> visible(const NvmlSession &nvml) {
  const int32_t count = count_all(nvml);
  std::vector<int32_t> devices;
  const char *list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) {
    for (int32_t index = 0; index < count; ++index) devices.push_back(index);
    return devices;
  }
  std::string rest = list;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    std::string entry = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    const size_t first = entry.find_first_not_of(" \t");
    entry = first == std::string::npos ? "" : entry.substr(first, entry.find_last_not_of(" \t") - first + 1);
    int32_t index = -1;
    if (entry.rfind("MIG-", 0) == 0 && count > 0) {
      devices.push_back(-1);
      continue;
    }
    if (entry.rfind("GPU-", 0) == 0) {
      index = find_uuid(nvml, entry, count);
    } else {
      char *end = nullptr;
      const long value = std::strtol(entry.c_str(), &end, 10);
      if (end != entry.c_str() && *end == '\0' && value >= 0 && value < count)
        index = static_cast<int32_t>(value);
    }
    if (index < 0) break;
    devices.push_back(index);
  }
  return devices;
}

// Cores of a multiprocessor (CUDA C++ Programming Guide, "Compute Capabilities": arithmetic).
int32_t cores_per_multiprocessor(int major, int minor) {
  return major < 8 || (major == 8 && minor == 0) ? 64 : 128;
}

}  // namespace

Status count_devices(int32_t *count) {
  const NvmlSession nvml;
  *count = static_cast<int32_t>(visible(nvml).size());
  if (*count > 0) return kOk;
  const int32_t all = count_all(nvml);
  if (all > 0) {
    return fail(
        FLASHATTN_STATUS_NO_DEVICE,
        "the CUDA driver is there, but CUDA_VISIBLE_DEVICES is \"%s\" and shows none of the %d devices",
        std::getenv("CUDA_VISIBLE_DEVICES"), all);
  }
  return fail(FLASHATTN_STATUS_NO_DEVICE, "the CUDA driver is there, but neither NVML nor %s lists a device",
              kProcGpus);
}

void describe_device(int32_t ordinal, flashattn_device_info_t *info) {
  const NvmlSession nvml;
  const std::vector<int32_t> devices = visible(nvml);
  if (!nvml || ordinal >= static_cast<int32_t>(devices.size()) || devices[ordinal] < 0) return;
  NvmlDevice device = nullptr;
  if (nvml->nvmlDeviceGetHandleByIndex(static_cast<unsigned>(devices[ordinal]), &device) != 0) return;
  nvml->nvmlDeviceGetName(device, info->name, sizeof info->name);
  int major = 0;
  int minor = 0;
  if (nvml->nvmlDeviceGetCudaComputeCapability(device, &major, &minor) == 0) {
    info->capability_major = major;
    info->capability_minor = minor;
    std::snprintf(info->features, sizeof info->features, "sm_%d%d", major, minor);
  }
  NvmlMemory memory{};
  if (nvml->nvmlDeviceGetMemoryInfo(device, &memory) == 0) info->total_memory_bytes = memory.total;
  unsigned cores = 0;
  if (nvml->nvmlDeviceGetNumGpuCores != nullptr && nvml->nvmlDeviceGetNumGpuCores(device, &cores) == 0) {
    info->compute_units = static_cast<int32_t>(cores) / cores_per_multiprocessor(major, minor);
  }
}

}  // namespace flashattn::cuda
