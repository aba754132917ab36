// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace flashattn::cli {

// Medians over `samples` samples of each contestant; a sample repeats its contestant for 2 ms at least.
struct Timing {
  double first_seconds = 0;   // of one call
  double second_seconds = 0;  // 0 when there is no second
  int samples = 0;
};

// Times two contestants in one run, interleaved first second second first so that a drifting clock meets both
// alike, for about a second each and seven rounds at least. second may be empty. Both return when their work
// is done.
Timing time_interleaved(const std::function<void(int repeats)> &first,
                        const std::function<void(int repeats)> &second);

}  // namespace flashattn::cli
