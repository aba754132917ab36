// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gcn/global_memory.h"

#include <algorithm>

#include "tests/support/gcn/trap.h"

namespace flashattn::gcn {

GlobalMemory::GlobalMemory(std::vector<MemoryRange> ranges) : ranges_(std::move(ranges)) {
  if (ranges_.empty()) ranges_.push_back({});
  std::sort(ranges_.begin(), ranges_.end(),
            [](const MemoryRange &a, const MemoryRange &b) { return a.begin < b.begin; });
}

void GlobalMemory::find(const Wave &wave, const Instruction &instruction, uint64_t address, uint32_t bytes,
                        bool write) const {
  const std::string access = write ? "global store" : "global load";
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                      [](uint64_t a, const MemoryRange &range) { return a < range.begin; });
  if (after == ranges_.begin() || address + bytes > (after - 1)->end) {
    std::string what = access + " of " + std::to_string(bytes) + " bytes out of bounds";
    if (after != ranges_.begin()) {
      what += ", " + std::to_string(address + bytes - (after - 1)->end) + " bytes past the end of " +
              (after - 1)->name;
    }
    trap_at(wave, instruction, what, address);
  }
  const MemoryRange &range = *(after - 1);
  if (write && !range.writable) {
    trap_at(wave, instruction, "global store to the read-only buffer " + range.name, address);
  }
  last_ = static_cast<size_t>(&range - ranges_.data());
}

}  // namespace flashattn::gcn
