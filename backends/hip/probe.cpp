// SPDX-License-Identifier: Apache-2.0
#include "backends/hip/probe.h"

#include <dirent.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace flashattn::hip {
namespace {

// A directory per processor and GPU, with a file of "name value" lines.
constexpr char kTopology[] = "/sys/class/kfd/kfd/topology/nodes";

using Properties = std::map<std::string, long long>;

Properties read_properties(const std::string &path) {
  Properties properties;
  FILE *file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return properties;
  char name[64];
  long long value = 0;
  while (std::fscanf(file, "%63s %lld", name, &value) == 2) properties[name] = value;
  std::fclose(file);
  return properties;
}

// The GPUs, in the order of their nodes. False when there is no topology.
bool read_gpus(std::vector<Properties> *gpus) {
  DIR *directory = opendir(kTopology);
  if (directory == nullptr) return false;
  std::map<int, Properties> nodes;
  while (const dirent *entry = readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    Properties properties = read_properties(std::string(kTopology) + "/" + entry->d_name + "/properties");
    if (properties["gfx_target_version"] > 0) nodes[std::atoi(entry->d_name)] = std::move(properties);
  }
  closedir(directory);
  for (auto &node : nodes) gpus->push_back(std::move(node.second));
  return true;
}

}  // namespace

Status count_devices(const HipDriver &driver, int32_t *count) {
  std::vector<Properties> gpus;
  if (!read_gpus(&gpus)) return start(driver, count);
  *count = static_cast<int32_t>(gpus.size());
  if (*count > 0) return kOk;
  return fail(FLASHATTN_STATUS_NO_DEVICE, "the HIP runtime is there, but %s lists no GPU", kTopology);
}

void describe_device(const HipDriver &driver, int32_t ordinal, flashattn_device_info_t *info) {
  std::vector<Properties> gpus;
  if (read_gpus(&gpus)) {
    if (ordinal >= static_cast<int32_t>(gpus.size())) return;
    Properties &gpu = gpus[static_cast<size_t>(ordinal)];
    const auto version = static_cast<int32_t>(gpu["gfx_target_version"]);  // 90402 is gfx942
    info->capability_major = version / 10000;
    info->capability_minor = version / 100 % 100;
    const long long simds = gpu["simd_count"];
    const long long per_unit = gpu["simd_per_cu"];
    info->compute_units = static_cast<int32_t>(per_unit > 0 ? simds / per_unit : 0);
    std::snprintf(info->features, sizeof info->features, "gfx%d%d%x", version / 10000, version / 100 % 100,
                  static_cast<unsigned>(version % 100));
    std::snprintf(info->name, sizeof info->name, "%s", info->features);
    return;
  }
  driver.hipDeviceGetName(info->name, sizeof info->name, ordinal);
  driver.hipDeviceGetAttribute(&info->capability_major, kCapabilityMajor, ordinal);
  driver.hipDeviceGetAttribute(&info->capability_minor, kCapabilityMinor, ordinal);
  driver.hipDeviceGetAttribute(&info->compute_units, kMultiprocessorCount, ordinal);
  std::snprintf(info->features, sizeof info->features, "gfx%d%d", info->capability_major,
                info->capability_minor);
}

}  // namespace flashattn::hip
