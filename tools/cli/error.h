// SPDX-License-Identifier: Apache-2.0
// What can go wrong in the tool, by exit code.
#pragma once

#include <stdexcept>
#include <string>

#include "flashattn.h"

namespace flashattn::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;  // the machine, the library or a check said no
inline constexpr int kExitInput = 2;    // wrong usage or a bad input file

// Exit code 2. The message names file, field, value and rule.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Exit code 1.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws when status is an error of the library: InputError for its argument class (1xx), else Failure.
inline void require(flashattn_status_t status) {
  if (status == FLASHATTN_STATUS_OK) return;
  const std::string detail = flashattn_last_error();
  const std::string text = detail.empty() ? flashattn_status_string(status) : detail;
  if (status / 100 == 1) throw InputError(text);
  throw Failure(text);
}

}  // namespace flashattn::cli
