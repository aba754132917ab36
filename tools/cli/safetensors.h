// SPDX-License-Identifier: Apache-2.0
// The .safetensors format: 8 bytes with the header's length N (little-endian), N bytes of JSON
//     {"name": {"dtype": "F16", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__": {"key":
//     "value"}}
// and the data, to which the offsets are relative. https://github.com/huggingface/safetensors#format
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/tensor.h"

namespace flashattn::cli {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;               // as in the file
  std::optional<Element> element;  // nothing: a type of the format that this tool cannot load
  Shape shape;
  uint64_t begin = 0;  // bytes from the beginning of the data
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

inline constexpr uint64_t kSafetensorsPrefix = 8;
// The format's own limit on the JSON.
inline constexpr uint64_t kSafetensorsMaxHeader = 100'000'000;

// The length of the JSON from the first bytes of a file of file_size bytes. Throws InputError.
uint64_t safetensors_header_size(std::string_view prefix, uint64_t file_size);

// Parses the JSON of a file with data_size bytes of data. Guarantees that every entry's bytes are its shape
// times its dtype, and that the entries cover the data without hole or overlap. Throws InputError with field,
// value and rule.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_size);

// The prefix and the JSON for tensors whose data follow in this order. Names must differ.
std::string make_safetensors_header(const std::vector<std::pair<std::string, const Tensor *>> &tensors);

}  // namespace flashattn::cli
