// SPDX-License-Identifier: Apache-2.0
// Which cases golden.txt holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/prepared_call.h"

namespace flashattn::golden {

// A call that must be refused: a good case with one thing made wrong, and the answer that the contract gives to it.
struct WrongCase {
  test::Case good;
  void (*spoil)(test::PreparedCall &call);
  flashattn_status_t status;
  std::string text;  // part of the error text: the field and its value
};

std::vector<test::Case> good_cases();
std::vector<WrongCase> wrong_cases();

}  // namespace flashattn::golden
