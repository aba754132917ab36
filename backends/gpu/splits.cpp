// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/splits.h"

#include <algorithm>

namespace flashattn::gpu {
namespace {

constexpr int64_t kMaxSplits = 128;
// Fewer keys than this in a split cost more to merge than they save.
constexpr int64_t kMinSplitKeys = 256;

int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

}  // namespace

SplitRule make_split_rule(const flashattn_problem_t &problem, const TileShape &tile,
                          int64_t resident_blocks) {
  int64_t rows = saturating_mul(saturating_mul(problem.max_batch, problem.max_seqlen_q), problem.num_heads_q);
  if (problem.layout_q == FLASHATTN_LAYOUT_RAGGED) {
    rows = saturating_mul(problem.max_total_q, problem.num_heads_q);
  }
  if (problem.num_splits > 0) {
    const int64_t room = problem.num_splits == 1 ? 0 : saturating_mul(rows, problem.num_splits);
    return {problem.num_splits, problem.num_splits, resident_blocks, room};
  }
  const int64_t most = std::min(kMaxSplits, problem.max_seqlen_kv / kMinSplitKeys);
  if ((problem.flags & FLASHATTN_FLAG_BATCH_INVARIANT) != 0 || most < 2 || rows == 0) {
    return {0, 1, resident_blocks, 0};
  }
  // choose_splits keeps blocks * splits at or under the target, and a block has at most tile.rows rows.
  const int64_t room = std::min(saturating_mul(rows, most), saturating_mul(resident_blocks, tile.rows));
  return {0, static_cast<int32_t>(most), resident_blocks, room};
}

int32_t choose_splits(const SplitRule &rule, int64_t blocks, int32_t seqlen_kv) {
  if (rule.forced > 0) return rule.forced;
  if (rule.max_splits == 1 || blocks == 0) return 1;
  const int64_t by_width = rule.target_blocks / blocks;
  const int64_t by_keys = seqlen_kv / kMinSplitKeys;
  return static_cast<int32_t>(std::clamp<int64_t>(std::min(by_width, by_keys), 1, rule.max_splits));
}

}  // namespace flashattn::gpu
