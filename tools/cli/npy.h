// SPDX-License-Identifier: Apache-2.0
// The .npy format of NumPy, versions 1.0 to 3.0 (numpy.lib.format, NEP 1): little-endian, C order, one array
// a file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/cli/tensor.h"

namespace flashattn::cli {

struct NpyHeader {
  Element element = Element::kF32;
  Shape shape;
  uint64_t data_begin = 0;  // bytes from the beginning of the file
};

// No header this tool reads is longer; NumPy itself refuses more than 10000 bytes unless told to trust the
// file.
inline constexpr uint64_t kNpyMaxHeader = uint64_t{1} << 16;

// Parses the header. `head` is the beginning of a file of file_size bytes: all of it, or at least
// kNpyMaxHeader + 12 bytes. Guarantees that data_begin + the array's bytes = file_size. Throws InputError
// with field, value and rule.
NpyHeader parse_npy_header(std::string_view head, uint64_t file_size);

// The header of version 1.0 that goes before the data. Throws InputError for bf16, which the format does not
// have.
std::string make_npy_header(Element element, const Shape &shape);

}  // namespace flashattn::cli
