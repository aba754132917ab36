// SPDX-License-Identifier: Apache-2.0
// Values as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flashattn::cli {

// 'text', shortened, with bytes that are not printable ASCII as \xNN: safe to print whatever a file holds.
std::string quoted_text(std::string_view text);

std::string bytes_text(double bytes);      // "1.50 MiB"
std::string seconds_text(double seconds);  // "1.50 ms"
std::string error_text(double value);      // "1.2e-07"; "0" for zero

// left- or right-aligned in width columns.
std::string padded(std::string_view text, size_t width);
std::string padded_left(std::string_view text, size_t width);

}  // namespace flashattn::cli
