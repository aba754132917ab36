// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/text.h"

#include <cstdio>

namespace flashattn::cli {

namespace {

std::string formatted(const char *format, double value, const char *unit) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value, unit);
  return buffer;
}

}  // namespace

std::string quoted_text(std::string_view text) {
  constexpr size_t kLongest = 80;
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(c));
      out += escaped;
    }
  }
  return out + (text.size() > kLongest ? "...'" : "'");
}

std::string bytes_text(double bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return formatted(unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
}

std::string seconds_text(double seconds) {
  if (seconds >= 1) return formatted("%.3f %s", seconds, "s");
  if (seconds >= 1e-3) return formatted("%.3f %s", seconds * 1e3, "ms");
  return formatted("%.2f %s", seconds * 1e6, "us");
}

std::string error_text(double value) {
  return value == 0 ? "0" : formatted("%.1e%s", value, "");
}

std::string padded(std::string_view text, size_t width) {
  std::string out(text);
  if (out.size() < width) out.append(width - out.size(), ' ');
  return out;
}

std::string padded_left(std::string_view text, size_t width) {
  const size_t missing = text.size() < width ? width - text.size() : 0;
  return std::string(missing, ' ') + std::string(text);
}

}  // namespace flashattn::cli
