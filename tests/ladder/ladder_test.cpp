// SPDX-License-Identifier: Apache-2.0
// Every rung is right, and stores no more than it says.
#include "bench/ladder/ladder.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/ladder/head.h"

using namespace flashattn::ladder;
using flashattn::ladder::testing::difference;
using flashattn::ladder::testing::Head;
using flashattn::ladder::testing::oracle;

namespace {

constexpr int kThreads = 2;

// Runs the rung on memory of exactly the size it asks for between guards, all of it NaN; false when a guard changed.
bool run_guarded(const Rung &rung, const Problem &problem) {
  constexpr size_t kGuard = 64;
  const float poison = std::nanf("");
  const auto floats = static_cast<size_t>(rung.intermediate_floats(problem.n, problem.dim, kThreads));
  std::vector<float> memory(floats + 2 * kGuard, poison);
  const std::vector<float> guard(kGuard, poison);
  rung.run(problem, kThreads, memory.data() + kGuard);
  const auto intact = [&](const float *at) {
    return std::memcmp(at, guard.data(), kGuard * sizeof(float)) == 0;
  };
  return intact(memory.data()) && intact(memory.data() + kGuard + floats);
}

}  // namespace

TEST_CASE("ladder: every rung agrees with float64 attention, at sizes beside the tiles' edges") {
  for (const int64_t n : {1, 2, 63, 64, 65, 96, 97, 193, 300}) {
    for (const int64_t dim : {1, 7, 16, 64, 72}) {
      for (const bool causal : {false, true}) {
        const Head head(n, dim, causal);
        const std::vector<double> expected = oracle(head);
        for (const Rung &rung : kLadder) {
          CAPTURE(std::string(rung.name));
          CAPTURE(n);
          CAPTURE(dim);
          CAPTURE(causal);
          std::vector<float> o;
          CHECK(run_guarded(rung, head.problem(&o)));
          CHECK(difference(o, expected) < 1e-5);
        }
      }
    }
  }
}

TEST_CASE("ladder: intermediates grow with n^2, n^2, n and not at all") {
  const auto floats = [](int rung, int64_t n) { return kLadder[rung].intermediate_floats(n, 64, kThreads); };
  const int64_t n = 8192;
  CHECK(floats(0, n) * 4 == 2 * (256 << 20));  // scores and probabilities: 256 MiB each
  CHECK(floats(0, 2 * n) == 4 * floats(0, n));
  CHECK(floats(1, n) - floats(0, n) == kThreads * 64 * 64);  // the same, and a tile of K a thread
  CHECK(floats(2, n) * 4 == kThreads * (32 << 10));          // a row of scores per thread: 32 KiB
  CHECK(floats(3, 2 * n) == floats(3, n));
  CHECK(floats(3, n) * 4 == kThreads * 4 * (96 * 64 + 64 * 64 + 3 * 96));
}

TEST_CASE("ladder: the number of threads changes no bit") {
  const Head head(500, 64, true);
  for (const Rung &rung : kLadder) {
    CAPTURE(std::string(rung.name));
    std::vector<float> first;
    for (const int threads : {1, 2, 5}) {
      std::vector<float> memory(static_cast<size_t>(rung.intermediate_floats(head.n, head.dim, threads)));
      std::vector<float> o;
      rung.run(head.problem(&o), threads, memory.data());
      if (first.empty()) first = o;
      CHECK(std::memcmp(o.data(), first.data(), o.size() * sizeof(float)) == 0);
    }
  }
}
