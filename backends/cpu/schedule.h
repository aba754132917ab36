// SPDX-License-Identifier: Apache-2.0
// How a call is cut into items that workers take: tiles of rows, and for few rows and many keys also splits
// of the keys. Decided by the sizes of problem and call alone, never by the number of threads, so that
// results do not depend on it.
#pragma once

#include <cstdint>

#include "backends/cpu/kernel.h"
#include "backends/cpu/sequence.h"
#include "backends/cpu/shape.h"
#include "backends/cpu/tile.h"

namespace flashattn::cpu {

// Calls with at least this many tiles are not split further.
inline constexpr int32_t kTargetItems = 64;
// Splits of fewer keys, times KV heads of a tile, cost more to merge than they save.
inline constexpr int64_t kMinSplitKeys = 1024;
// What the partial results of a plan may take when the library chooses the splits.
inline constexpr int64_t kPartialBytes = int64_t{8} << 20;

// What a plan fixes.
struct SplitRule {
  int32_t forced;      // splits of every tile; 0 = choose
  int32_t max_splits;  // 1 when calls are never split
  int64_t min_keys;    // of a split
  int64_t max_tiles;   // most tiles of a call that is split
  int64_t slots;       // partial states the workspace has room for; 0 when calls are never split
};

// slot_bytes is the size of one partial state.
SplitRule make_split_rule(const Shape &shape, const flashattn_problem_t &problem, const Blocking &blocking,
                          int64_t slot_bytes);

// Tiles of a sequence with n_q queries.
int64_t tiles_of(const Shape &shape, const Blocking &blocking, int64_t n_q);

// Splits of a call with this many tiles, 1 .. max_splits.
int32_t choose_splits(const SplitRule &rule, int64_t tiles);
// Splits of a sequence with n_k keys in such a call.
int32_t choose_splits(const SplitRule &rule, int32_t call_splits, int64_t n_k);

// Keys of one split: whole blocks from the block that keys.begin lies in, as evenly as blocks allow.
KeyRange split_keys(const KeyRange &keys, int32_t block, int32_t split, int32_t splits);

// Totals of a call.
struct Schedule {
  int32_t splits;  // of the call
  int64_t items;
  double multiply_adds;  // an upper bound, without the mask
};
Schedule make_schedule(const Shape &shape, const flashattn_call_t &call, const Blocking &blocking,
                       const SplitRule &rule);

// One item: a tile restricted to one split of its keys.
struct Item {
  Tile tile;
  int64_t tile_index;  // within the call
  int32_t split;
  int32_t splits;  // of this tile
};

// Finds items by number. Each worker has a cursor of its own and asks for rising numbers, so that going
// through the sequences costs O(batch) per worker and no memory.
class ItemCursor {
 public:
  ItemCursor(const Shape &shape, const flashattn_call_t &call, const Blocking &blocking,
             const Schedule &schedule, const SplitRule &rule);
  Item seek(int64_t item);

 private:
  void enter(int64_t batch_index);

  const Shape &shape_;
  const flashattn_call_t &call_;
  const Blocking &blocking_;
  const Schedule &schedule_;
  const SplitRule &rule_;
  Sequence sequence_{};
  int32_t splits_ = 1;
  int64_t row_tiles_ = 0;  // of each group of KV heads
  int64_t tiles_ = 0;
  int64_t first_tile_ = 0;
  int64_t first_item_ = 0;
};

}  // namespace flashattn::cpu
