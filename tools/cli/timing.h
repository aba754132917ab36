// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

namespace flashattn::cli {

// Samples of one contestant in order, seconds of one call each. A sample repeats its contestant for 2 ms at
// least.
struct Spread {
  double median = 0;
  double lower = 0;  // first quartile
  double upper = 0;  // third quartile
  int samples = 0;
};
Spread spread_of(std::vector<double> seconds);

// A round takes two samples of each contestant. Rounds go on until both are reached.
struct Effort {
  int rounds = 7;
  double seconds = 2;  // of all contestants together
};

// Something to time: does its work `repeats` times and returns when it is done.
using Contestant = std::function<void(int repeats)>;

// Times contestants in one run, interleaved a b c c b a so that a drifting clock meets all alike.
std::vector<Spread> time_interleaved(const std::vector<Contestant> &contestants, const Effort &effort);

}  // namespace flashattn::cli
