// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace flashattn::cpu::test {
namespace {

struct Drawn {
  Shape shape{};
  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  flashattn_call_t call = FLASHATTN_CALL_INIT;
  Blocking blocking{};
  std::vector<int32_t> cu_q;
  std::vector<int32_t> used_kv;
};

Drawn draw_case(std::mt19937 *random) {
  const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(*random); };
  Drawn d;
  flashattn_problem_t &problem = d.problem;
  problem.dtype_q = problem.dtype_kv = problem.dtype_o = FLASHATTN_DTYPE_F32;
  problem.num_heads_kv = draw(1, 9);
  problem.num_heads_q = problem.num_heads_kv * draw(1, 5);
  problem.head_dim = problem.head_dim_v = 64;
  problem.max_batch = draw(1, 6);
  problem.max_seqlen_q = draw(0, 3) == 0 ? draw(1, 60) : draw(1, 3);
  problem.max_seqlen_kv = draw(0, 1) != 0 ? draw(1, 100) : draw(2000, 9000);
  problem.layout_q = draw(0, 1);
  problem.features = FLASHATTN_FEATURE_SEQUSED_KV;
  problem.causal = draw(0, 1);
  problem.num_splits = draw(0, 2) == 0 ? draw(1, 6) : 0;
  if (problem.num_splits == 0 && draw(0, 3) == 0) problem.flags = FLASHATTN_FLAG_BATCH_INVARIANT;
  flashattn_call_t &call = d.call;
  call.batch = draw(0, problem.max_batch);
  call.seqlen_q = problem.layout_q == FLASHATTN_LAYOUT_DENSE ? draw(0, problem.max_seqlen_q) : 0;
  call.seqlen_kv = problem.max_seqlen_kv;
  d.cu_q.push_back(draw(0, 2));
  for (int32_t b = 0; b < problem.max_batch; ++b) {
    d.cu_q.push_back(d.cu_q.back() + draw(0, problem.max_seqlen_q));
    d.used_kv.push_back(draw(0, problem.max_seqlen_kv));
  }
  problem.max_total_q = call.total_q = d.cu_q.back();
  d.shape = make_shape(problem);
  d.blocking = {draw(1, 24), draw(1, 4), 8 * draw(1, 16), 0};
  return d;
}

}  // namespace

TEST_CASE("schedule: every row of every head sees each of its keys in exactly one item, within the slots") {
  std::mt19937 random(std::random_device{}());
  for (int round = 0; round < 300; ++round) {
    Drawn d = draw_case(&random);
    d.call.cu_seqlens_q = d.cu_q.data();
    d.call.seqused_kv = d.used_kv.data();
    const int64_t slot_bytes = 1000;
    const SplitRule rule = make_split_rule(d.shape, d.problem, d.blocking, slot_bytes);
    const Schedule schedule = make_schedule(d.shape, d.call, d.blocking, rule);
    if (d.problem.num_splits == 0) REQUIRE(rule.slots * slot_bytes <= kPartialBytes);
    if (d.shape.batch_invariant) REQUIRE(schedule.splits == 1);
    REQUIRE(schedule.splits <= rule.max_splits);

    // Two workers that take every other item.
    ItemCursor even(d.shape, d.call, d.blocking, schedule, rule);
    ItemCursor odd(d.shape, d.call, d.blocking, schedule, rule);
    // next[(b, head, query)] is the key that the following split must begin at.
    std::vector<std::vector<int64_t>> seen(static_cast<size_t>(d.call.batch));
    for (int64_t b = 0; b < d.call.batch; ++b) {
      seen[b].assign(sequence_at(d.shape, d.call, b).n_q * d.shape.heads_q, 0);
    }
    std::set<std::pair<int64_t, int32_t>> slots;
    for (int64_t number = 0; number < schedule.items; ++number) {
      const Item item = (number % 2 == 0 ? even : odd).seek(number);
      const Tile &tile = item.tile;
      REQUIRE(tile.rows >= 1);
      REQUIRE(tile.rows <= d.blocking.rows);
      REQUIRE(tile.heads >= 1);
      REQUIRE(tile.heads <= d.blocking.heads);
      REQUIRE(slots.insert({item.tile_index, item.split}).second);
      if (item.splits > 1) {
        REQUIRE(item.tile_index < rule.max_tiles);
        REQUIRE(item.tile_index * schedule.splits + item.split < rule.slots);
      }
      if (tile.keys.begin < tile.keys.end) REQUIRE(tile.keys.begin % d.blocking.keys == 0);
      for (int32_t r = 0; r < tile.heads * tile.rows; ++r) {
        const KeyRange keys = visible_keys(tile, r);
        const int64_t row = query_of(tile, r) * d.shape.heads_q + head_of(tile, r);
        if (keys.begin < keys.end) seen[tile.sequence.index][row] += keys.end - keys.begin;
      }
    }
    for (int64_t b = 0; b < d.call.batch; ++b) {
      const Sequence sequence = sequence_at(d.shape, d.call, b);
      for (int64_t i = 0; i < sequence.n_q; ++i) {
        const KeyRange keys = visible_keys(d.shape, sequence.n_k, sequence.diagonal, i);
        for (int32_t h = 0; h < d.shape.heads_q; ++h) {
          REQUIRE(seen[b][i * d.shape.heads_q + h] == std::max<int64_t>(keys.end - keys.begin, 0));
        }
      }
    }
  }
}

TEST_CASE("split_keys: splits follow one another, begin at blocks and cover the range") {
  std::mt19937 random(std::random_device{}());
  const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  for (int round = 0; round < 2000; ++round) {
    const int64_t begin = draw(0, 500);
    const KeyRange keys{begin, begin + draw(-3, 800)};
    const int32_t block = draw(1, 70);
    const int32_t splits = draw(1, 9);
    int64_t at = keys.begin / block * block;
    for (int32_t split = 0; split < splits; ++split) {
      const KeyRange part = split_keys(keys, block, split, splits);
      if (part.begin == part.end) continue;
      REQUIRE(part.begin == at);
      REQUIRE(part.begin < part.end);
      at = part.end;
    }
    if (keys.begin < keys.end) REQUIRE(at == keys.end);
  }
}

TEST_CASE("choose_splits: few tiles and many keys are split, many tiles or few keys are not") {
  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  problem.num_heads_q = 8;
  problem.num_heads_kv = 2;
  problem.head_dim = problem.head_dim_v = 64;
  problem.max_batch = 512;
  problem.max_seqlen_q = 1;
  problem.max_seqlen_kv = 32768;
  const Blocking blocking{4, 1, 64, 0};
  const SplitRule rule = make_split_rule(make_shape(problem), problem, blocking, 4096);
  CHECK(choose_splits(rule, 2) > 8);
  CHECK(choose_splits(rule, 1000) == 1);
  CHECK(choose_splits(rule, 16, 100) == 1);
  CHECK(choose_splits(rule, 16, 32768) == 16);
  problem.num_splits = 5;
  const SplitRule forced = make_split_rule(make_shape(problem), problem, blocking, 4096);
  CHECK(choose_splits(forced, 1000) == 5);
  CHECK(choose_splits(forced, 5, 1) == 5);
  CHECK(forced.slots == 5 * 512 * 2);
}

}  // namespace flashattn::cpu::test
