// SPDX-License-Identifier: Apache-2.0
// Checks of option values that CLI11 does not have: its ranges let NaN pass.
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <string>

namespace flashattn::cli {

// A finite number, above 0 or, when zero may be, at least 0. What is no number is left to the conversion.
inline CLI::Validator finite_number(bool zero) {
  const auto refuse = [zero](const std::string &text) -> std::string {
    char *end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || *end != '\0') return "";
    if (std::isfinite(value) && (value > 0 || (zero && value == 0))) return "";
    return "is " + text + "; it must be finite and " + (zero ? "at least 0" : "above 0");
  };
  return CLI::Validator(refuse, "");
}

}  // namespace flashattn::cli
