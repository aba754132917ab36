// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace flashattn::cli {

// Runs body(i) once for every i in [0, count) on `threads` threads, the caller's included. body must not
// throw.
template <class Body>
void parallel_for(int64_t count, int threads, const Body &body) {
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads && t < count; ++t) others.emplace_back(work);
  work();
  for (std::thread &other : others) other.join();
}

}  // namespace flashattn::cli
