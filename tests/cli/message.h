// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/cli/error.h"

// What action complains about; "" when it does not throw InputError.
template <class Action>
std::string message_of(const Action &action) {
  try {
    action();
  } catch (const flashattn::cli::InputError &error) {
    return error.what();
  }
  return "";
}
