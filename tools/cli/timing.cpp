// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/timing.h"

#include <algorithm>
#include <chrono>

namespace flashattn::cli {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Sampler {
 public:
  explicit Sampler(const Contestant &body) : body_(body) {
    // The first use pays for page faults and cold caches; where it was long its time is enough to go by.
    if (elapsed() >= 1e-1) return;
    while (elapsed() < 2e-3 && repeats_ < 1'000'000) repeats_ *= 2;
  }

  void sample() { seconds_.push_back(elapsed() / repeats_); }
  Spread spread() { return spread_of(std::move(seconds_)); }

 private:
  double elapsed() const {
    const auto begin = Clock::now();
    body_(repeats_);
    return since(begin);
  }

  const Contestant &body_;
  int repeats_ = 1;
  std::vector<double> seconds_;
};

}  // namespace

Spread spread_of(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  const size_t last = seconds.size() - 1;
  return {seconds[seconds.size() / 2], seconds[last / 4], seconds[last - last / 4],
          static_cast<int>(seconds.size())};
}

std::vector<Spread> time_interleaved(const std::vector<Contestant> &contestants, const Effort &effort) {
  std::vector<Sampler> samplers(contestants.begin(), contestants.end());
  const auto begin = Clock::now();
  for (int round = 0; round < effort.rounds || since(begin) < effort.seconds; ++round) {
    std::for_each(samplers.begin(), samplers.end(), [](Sampler &s) { s.sample(); });
    std::for_each(samplers.rbegin(), samplers.rend(), [](Sampler &s) { s.sample(); });
  }
  std::vector<Spread> spreads;
  spreads.reserve(samplers.size());
  for (Sampler &sampler : samplers) spreads.push_back(sampler.spread());
  return spreads;
}

}  // namespace flashattn::cli
