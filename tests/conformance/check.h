// SPDX-License-Identifier: Apache-2.0
// What the files of the conformance suite share.
#pragma once

#include <string>
#include <vector>

#include "tests/support/session.h"

namespace flashattn::test {

// --quick: a fresh random sample of every table, and the small form of big cases.
bool quick();
void set_quick(bool value);

// Runs a case on every kernel of every backend and fails the current doctest case for each breach. The
// library's own choice must never refuse.
void check_case(const Case &c);

// check_case for a whole table; case names get the table's name and their number.
void check_table(const std::string &table, std::vector<Case> cases);

// Runs c once on one kernel and compares with the oracle unless expected is null; fails the doctest case on a
// breach. False when the kernel refused (counted) or failed.
bool run_on(const Kernel &kernel, const Case &c, PreparedCall &call, const Expected *expected);

// The tables.
std::vector<Case> dtype_cases();
std::vector<Case> head_dim_cases();
std::vector<Case> head_count_cases();
std::vector<Case> tile_edge_cases();
std::vector<Case> mask_cases();
std::vector<Case> score_cases();
std::vector<Case> bias_cases();
std::vector<Case> sink_cases();
std::vector<Case> extreme_logit_cases();
std::vector<Case> stride_cases();
std::vector<Case> ragged_cases();
std::vector<Case> paged_cases();
std::vector<Case> split_cases();
std::vector<Case> tile_cases();
std::vector<Case> random_cases(int32_t count);

}  // namespace flashattn::test
