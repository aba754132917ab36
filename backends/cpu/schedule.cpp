// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/schedule.h"

#include <algorithm>

namespace flashattn::cpu {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

// Tiles of one group of KV heads of one sequence.
int64_t row_tiles(const Shape &shape, const Blocking &blocking, int64_t n_q) {
  return ceil_div(n_q * shape.group, blocking.rows);
}

}  // namespace

int64_t tiles_of(const Shape &shape, const Blocking &blocking, int64_t n_q) {
  return ceil_div(shape.heads_kv, blocking.heads) * row_tiles(shape, blocking, n_q);
}

SplitRule make_split_rule(const Shape &shape, const flashattn_problem_t &problem, const Blocking &blocking,
                          int64_t slot_bytes) {
  int64_t most_tiles = saturating_mul(problem.max_batch, tiles_of(shape, blocking, problem.max_seqlen_q));
  if (shape.layout_q == FLASHATTN_LAYOUT_RAGGED) {
    // At most one partly filled tile per sequence beside the full ones.
    const int64_t full = saturating_mul(problem.max_total_q, shape.group) / blocking.rows;
    most_tiles = std::min(most_tiles,
                          saturating_mul(full + problem.max_batch, ceil_div(shape.heads_kv, blocking.heads)));
  }
  if (problem.num_splits > 0) {
    const int64_t slots = problem.num_splits == 1 ? 0 : saturating_mul(most_tiles, problem.num_splits);
    return {problem.num_splits, problem.num_splits, 1, most_tiles, slots};
  }
  const int64_t min_keys = std::max<int64_t>(kMinSplitKeys / blocking.heads, 2 * blocking.keys);
  const int64_t affordable = kPartialBytes / slot_bytes / 2;
  const int64_t target = std::min<int64_t>(kTargetItems, affordable);
  const int64_t max_splits = std::min(target, problem.max_seqlen_kv / min_keys);
  if (shape.batch_invariant || max_splits < 2) return {0, 1, min_keys, 0, 0};
  const int64_t max_tiles = std::min(most_tiles, target - 1);
  // tiles * ceil(target / tiles) < tiles + target.
  const int64_t slots = std::min(max_tiles * max_splits, 2 * target);
  return {0, static_cast<int32_t>(max_splits), min_keys, max_tiles, slots};
}

int32_t choose_splits(const SplitRule &rule, int64_t tiles) {
  if (rule.forced > 0) return rule.forced;
  if (tiles == 0 || tiles > rule.max_tiles) return 1;
  return static_cast<int32_t>(std::min<int64_t>(rule.max_splits, rule.slots / tiles));
}

int32_t choose_splits(const SplitRule &rule, int32_t call_splits, int64_t n_k) {
  if (rule.forced > 0) return rule.forced;
  return static_cast<int32_t>(std::clamp<int64_t>(n_k / rule.min_keys, 1, call_splits));
}

KeyRange split_keys(const KeyRange &keys, int32_t block, int32_t split, int32_t splits) {
  if (keys.end <= keys.begin) return {0, 0};
  const int64_t first = keys.begin / block;
  const int64_t blocks = ceil_div(keys.end, block) - first;
  const int64_t begin = first + blocks * split / splits;
  const int64_t end = first + blocks * (split + 1) / splits;
  return {begin * block, std::min(keys.end, end * block)};
}

Schedule make_schedule(const Shape &shape, const flashattn_call_t &call, const Blocking &blocking,
                       const SplitRule &rule) {
  Schedule schedule{1, 0, 0.0};
  int64_t tiles = 0;
  for (int64_t b = 0; b < call.batch; ++b) {
    tiles += tiles_of(shape, blocking, sequence_at(shape, call, b).n_q);
  }
  schedule.splits = choose_splits(rule, tiles);
  for (int64_t b = 0; b < call.batch; ++b) {
    const Sequence sequence = sequence_at(shape, call, b);
    schedule.items +=
        tiles_of(shape, blocking, sequence.n_q) * choose_splits(rule, schedule.splits, sequence.n_k);
    schedule.multiply_adds += static_cast<double>(sequence.n_q) * shape.heads_q *
                              static_cast<double>(sequence.n_k) * (shape.dim + shape.dim_v);
  }
  return schedule;
}

ItemCursor::ItemCursor(const Shape &shape, const flashattn_call_t &call, const Blocking &blocking,
                       const Schedule &schedule, const SplitRule &rule)
    : shape_(shape), call_(call), blocking_(blocking), schedule_(schedule), rule_(rule) {
  if (schedule.items > 0) enter(0);
}

void ItemCursor::enter(int64_t batch_index) {
  sequence_ = sequence_at(shape_, call_, batch_index);
  splits_ = choose_splits(rule_, schedule_.splits, sequence_.n_k);
  row_tiles_ = row_tiles(shape_, blocking_, sequence_.n_q);
  tiles_ = tiles_of(shape_, blocking_, sequence_.n_q);
}

Item ItemCursor::seek(int64_t item) {
  while (item - first_item_ >= tiles_ * splits_) {
    first_tile_ += tiles_;
    first_item_ += tiles_ * splits_;
    enter(sequence_.index + 1);
  }
  const int64_t local = (item - first_item_) / splits_;
  // Under a causal mask the last rows see the most keys: they go first, so that no worker is left with a long
  // tile at the end.
  const int64_t row_tile = row_tiles_ - 1 - local % row_tiles_;
  Item found{};
  found.tile_index = first_tile_ + local;
  found.split = static_cast<int32_t>((item - first_item_) % splits_);
  found.splits = splits_;
  Tile &tile = found.tile;
  tile.shape = &shape_;
  tile.call = &call_;
  tile.sequence = sequence_;
  tile.kv_head = static_cast<int32_t>(local / row_tiles_) * blocking_.heads;
  tile.heads = std::min(blocking_.heads, shape_.heads_kv - tile.kv_head);
  tile.first_row = row_tile * blocking_.rows;
  tile.rows =
      static_cast<int32_t>(std::min<int64_t>(blocking_.rows, sequence_.n_q * shape_.group - tile.first_row));
  const KeyRange keys = visible_keys(shape_, sequence_.n_k, sequence_.diagonal, query_of(tile, 0),
                                     query_of(tile, tile.rows - 1));
  tile.keys = split_keys(keys, blocking_.keys, found.split, splits_);
  return found;
}

}  // namespace flashattn::cpu
