// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/timing.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace flashattn::cli {

namespace {

class Contestant {
 public:
  explicit Contestant(const std::function<void(int)> &body) : body_(body) {
    if (!body_) return;
    body_(1);  // first use pays for page faults and cold caches
    while (elapsed() < 2e-3 && repeats_ < 1'000'000) repeats_ *= 2;
  }

  void sample() {
    if (body_) seconds_.push_back(elapsed() / repeats_);
  }

  double median() {
    if (seconds_.empty()) return 0;
    const auto middle = seconds_.begin() + static_cast<std::ptrdiff_t>(seconds_.size() / 2);
    std::nth_element(seconds_.begin(), middle, seconds_.end());
    return *middle;
  }

  int samples() const { return static_cast<int>(seconds_.size()); }

 private:
  double elapsed() const {
    const auto begin = std::chrono::steady_clock::now();
    body_(repeats_);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  const std::function<void(int)> &body_;
  int repeats_ = 1;
  std::vector<double> seconds_;
};

}  // namespace

Timing time_interleaved(const std::function<void(int)> &first, const std::function<void(int)> &second) {
  constexpr int kFewestRounds = 7;
  constexpr auto kBudget = std::chrono::seconds(2);
  Contestant a(first);
  Contestant b(second);
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < kFewestRounds || std::chrono::steady_clock::now() - begin < kBudget; ++round) {
    a.sample();
    b.sample();
    b.sample();
    a.sample();
  }
  return {a.median(), b.median(), a.samples()};
}

}  // namespace flashattn::cli
