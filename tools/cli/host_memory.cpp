// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/host_memory.h"

#include <unistd.h>

#include <fstream>
#include <string>

namespace flashattn::cli {

uint64_t available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  std::string unit;
  while (meminfo >> name >> kib && std::getline(meminfo, unit)) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

}  // namespace flashattn::cli
