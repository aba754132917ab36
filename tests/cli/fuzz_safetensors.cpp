// SPDX-License-Identifier: Apache-2.0
// libFuzzer: whatever JSON a file holds, the .safetensors reader refuses it or keeps its guarantee. The first
// byte is the size of the data, so that small valid files are found; the length prefix is tried on the input
// as it is.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tools/cli/error.h"
#include "tools/cli/safetensors.h"

namespace {

using namespace flashattn::cli;

void try_prefix(std::string_view bytes) {
  try {
    if (safetensors_header_size(bytes, bytes.size()) > bytes.size() - kSafetensorsPrefix) __builtin_trap();
  } catch (const InputError &) {
    return;
  }
}

void try_header(std::string_view json, uint64_t data_size) {
  SafetensorsHeader header;
  try {
    header = parse_safetensors_header(json, data_size);
  } catch (const InputError &) {
    return;
  }
  uint64_t covered = 0;
  for (const SafetensorsEntry &entry : header.entries) {
    if (entry.begin != covered || entry.end < entry.begin) __builtin_trap();
    covered = entry.end;
    if (!entry.element) continue;
    const auto count = element_count(entry.shape);
    if (!count || static_cast<uint64_t>(*count * element_size(*entry.element)) != entry.end - entry.begin) {
      __builtin_trap();
    }
  }
  if (covered != data_size) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char *>(data), size);
  try_prefix(bytes);
  if (size > 0) try_header(bytes.substr(1), data[0]);
  return 0;
}
