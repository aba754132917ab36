// SPDX-License-Identifier: Apache-2.0
// The plans flashattn_attention has made for one handle.
#pragma once

#include <cstdint>
#include <mutex>

#include "src/plan_state.h"

namespace flashattn {

// Least recently used of kCapacity. Thread-safe. An evicted plan lives on while a call holds it.
class PlanCache {
 public:
  static constexpr int kCapacity = 32;

  // The plan of this normalised problem, byte for byte, or null.
  PlanPointer find(const flashattn_problem_t &problem);

  // Keeps the plan and returns it, or the one that another thread has kept for the same problem meanwhile.
  PlanPointer keep(PlanPointer plan);

 private:
  struct Entry {
    PlanPointer plan;
    uint64_t last_used = 0;  // by clock_
  };

  Entry *look_up(const flashattn_problem_t &problem);

  std::mutex mutex_;
  uint64_t clock_ = 0;
  Entry entries_[kCapacity];
};

}  // namespace flashattn
