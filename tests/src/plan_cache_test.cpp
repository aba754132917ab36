// SPDX-License-Identifier: Apache-2.0
#include "src/plan_cache.h"

#include <doctest/doctest.h>

#include <memory>

#include "tests/src/fixture.h"

namespace flashattn::testing {
namespace {

PlanPointer make_plan(int32_t max_batch) {
  auto plan = std::make_shared<PlanState>();
  plan->problem = Fixture().problem;
  plan->problem.max_batch = max_batch;
  return plan;
}

flashattn_problem_t problem_of(int32_t max_batch) {
  return make_plan(max_batch)->problem;
}

TEST_CASE("the cache answers with the plan of the same bytes and forgets the least recently used") {
  PlanCache cache;
  CHECK((cache.find(problem_of(0)) == nullptr));
  const PlanPointer first = cache.keep(make_plan(0));
  CHECK((cache.find(problem_of(0)) == first));
  for (int i = 1; i < PlanCache::kCapacity; ++i) cache.keep(make_plan(i));
  CHECK((cache.find(problem_of(0)) == first));  // now the most recently used
  cache.keep(make_plan(PlanCache::kCapacity));
  CHECK((cache.find(problem_of(0)) == first));
  CHECK((cache.find(problem_of(1)) == nullptr));
  CHECK((cache.find(problem_of(2)) != nullptr));
}

TEST_CASE("of two plans for one problem the first kept stays") {
  PlanCache cache;
  const PlanPointer first = cache.keep(make_plan(1));
  CHECK((cache.keep(make_plan(1)) == first));
  CHECK((cache.find(problem_of(1)) == first));
}

TEST_CASE("the cache holds no more plans than its capacity, and a held plan outlives its eviction") {
  PlanCache cache;
  std::weak_ptr<const PlanState> watched[3 * PlanCache::kCapacity];
  PlanPointer held;
  for (int i = 0; i < 3 * PlanCache::kCapacity; ++i) {
    const PlanPointer kept = cache.keep(make_plan(i));
    watched[i] = kept;
    if (i == 0) held = kept;
  }
  int alive = 0;
  for (const auto &plan : watched) alive += plan.expired() ? 0 : 1;
  CHECK(alive == PlanCache::kCapacity + 1);
  CHECK(held->problem.max_batch == 0);
}

}  // namespace
}  // namespace flashattn::testing
