// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace flashattn::ladder {

// Calls body(begin, end, thread) for blocks of `block` rows until all n are done, on `threads` threads. The last
// block goes first: under a causal mask it is the longest.
template <class Body>
void for_row_blocks(int64_t n, int64_t block, int threads, const Body &body) {
  std::atomic<int64_t> left{(n + block - 1) / block};
  const auto work = [&](int thread) {
    for (int64_t b = --left; b >= 0; b = --left) body(b * block, std::min(n, (b + 1) * block), thread);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread &other : others) other.join();
}

}  // namespace flashattn::ladder
