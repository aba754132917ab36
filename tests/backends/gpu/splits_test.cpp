// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/splits.h"

#include <doctest/doctest.h>

#include <initializer_list>

namespace flashattn::gpu {
namespace {

constexpr TileShape kTile{128, 64, 128, 0};
constexpr int64_t kResident = 264;

flashattn_problem_t decode() {
  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  problem.num_heads_q = 32;
  problem.num_heads_kv = 8;
  problem.head_dim = problem.head_dim_v = 128;
  problem.max_batch = 4;
  problem.max_seqlen_q = 1;
  problem.max_seqlen_kv = 8192;
  return problem;
}

}  // namespace

TEST_CASE("splits: few tiles and many keys are split until the device is full") {
  const SplitRule rule = make_split_rule(decode(), kTile, kResident);
  CHECK(rule.max_splits == 32);
  CHECK(choose_splits(rule, 8, 8192) == 32);
  CHECK(choose_splits(rule, 32, 8192) == 8);
  CHECK(choose_splits(rule, 264, 8192) == 1);
  CHECK(choose_splits(rule, 8, 300) == 1);
  CHECK(choose_splits(rule, 0, 8192) == 1);
}

TEST_CASE("splits: the workspace has room for whatever is chosen") {
  for (const int32_t heads : {8, 64}) {
    for (const int32_t seqlen_q : {1, 5, 100, 3000}) {
      for (const int32_t forced : {0, 1, 7}) {
        flashattn_problem_t problem = decode();
        problem.num_heads_q = heads;
        problem.max_seqlen_q = seqlen_q;
        problem.num_splits = forced;
        const SplitRule rule = make_split_rule(problem, kTile, kResident);
        for (int32_t batch = 1; batch <= problem.max_batch; ++batch) {
          const int64_t blocks = batch * 8 * tiles_of(seqlen_q, heads / 8, kTile.rows);
          const int32_t splits = choose_splits(rule, blocks, problem.max_seqlen_kv);
          CHECK(splits <= rule.max_splits);
          if (splits > 1) CHECK(int64_t{batch} * seqlen_q * heads * splits <= rule.partial_rows);
        }
      }
    }
  }
}

TEST_CASE("splits: never with the batch-invariant flag, and as many as were asked for") {
  flashattn_problem_t problem = decode();
  problem.flags = FLASHATTN_FLAG_BATCH_INVARIANT;
  CHECK(make_split_rule(problem, kTile, kResident).max_splits == 1);
  CHECK(make_split_rule(problem, kTile, kResident).partial_rows == 0);
  problem.flags = 0;
  problem.num_splits = 200;
  const SplitRule rule = make_split_rule(problem, kTile, kResident);
  CHECK(choose_splits(rule, 100000, 1) == 200);
  problem.num_splits = 1;
  CHECK(make_split_rule(problem, kTile, kResident).partial_rows == 0);
}

TEST_CASE("splits: sizes whose product leaves int64 saturate") {
  flashattn_problem_t problem = decode();
  problem.max_batch = problem.max_seqlen_q = problem.num_heads_q = INT32_MAX;
  problem.num_splits = 256;
  CHECK(make_split_rule(problem, kTile, kResident).partial_rows == INT64_MAX);
}

}  // namespace flashattn::gpu
