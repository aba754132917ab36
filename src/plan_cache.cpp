// SPDX-License-Identifier: Apache-2.0
#include "src/plan_cache.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace flashattn {

PlanCache::Entry *PlanCache::look_up(const flashattn_problem_t &problem) {
  for (Entry &entry : entries_) {
    // The struct has no padding, and floats that differ in their bytes make different problems.
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
    if (entry.plan != nullptr && std::memcmp(&entry.plan->problem, &problem, sizeof problem) == 0) {
      entry.last_used = ++clock_;
      return &entry;
    }
  }
  return nullptr;
}

PlanPointer PlanCache::find(const flashattn_problem_t &problem) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Entry *entry = look_up(problem);
  return entry != nullptr ? entry->plan : nullptr;
}

PlanPointer PlanCache::keep(PlanPointer plan) {
  // The evicted plan goes after the lock does: its destruction is the backend's and may take long.
  PlanPointer evicted;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const Entry *entry = look_up(plan->problem); entry != nullptr) return entry->plan;
  // Free entries have last_used 0 and go first.
  Entry *oldest = std::min_element(std::begin(entries_), std::end(entries_),
                                   [](const Entry &a, const Entry &b) { return a.last_used < b.last_used; });
  evicted = std::exchange(oldest->plan, std::move(plan));
  oldest->last_used = ++clock_;
  return oldest->plan;
}

}  // namespace flashattn
