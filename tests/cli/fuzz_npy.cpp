// SPDX-License-Identifier: Apache-2.0
// libFuzzer: whatever bytes a file holds, the .npy reader refuses them or keeps its guarantee.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tools/cli/error.h"
#include "tools/cli/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace flashattn::cli;
  NpyHeader header;
  try {
    header = parse_npy_header({reinterpret_cast<const char *>(data), size}, size);
  } catch (const InputError &) {
    return 0;
  }
  const auto count = element_count(header.shape);
  if (!count || header.data_begin + static_cast<uint64_t>(*count * element_size(header.element)) != size) {
    __builtin_trap();
  }
  // What was read can be written, and is read as the same again.
  const std::string head = make_npy_header(header.element, header.shape);
  const NpyHeader again = parse_npy_header(head, head.size() + size - header.data_begin);
  if (again.element != header.element || again.shape != header.shape) __builtin_trap();
  return 0;
}
