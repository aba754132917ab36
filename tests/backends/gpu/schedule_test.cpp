// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/schedule.h"

#include <doctest/doctest.h>

#include <set>
#include <tuple>


namespace flashattn::gpu {
namespace {

template <typename Index>
void check_order(int32_t batch, int32_t heads, int32_t tiles, int32_t splits, Index section) {
  const Index pairs = static_cast<Index>(batch) * heads;
  std::set<std::tuple<int32_t, int32_t, int32_t, int32_t>> seen;
  int32_t last_tile = tiles;
  Index last_section = 0;
  for (Index block = 0; block < pairs * tiles * splits; ++block) {
    const Piece piece = piece_at<Index>(block, pairs, heads, tiles, splits, section);
    REQUIRE((piece.batch >= 0 && piece.batch < batch));
    REQUIRE((piece.head_kv >= 0 && piece.head_kv < heads));
    REQUIRE((piece.tile >= 0 && piece.tile < tiles));
    CHECK(piece.split == static_cast<int32_t>(block % splits));
    CHECK(seen.insert({piece.batch, piece.head_kv, piece.tile, piece.split}).second);
    const Index here = (static_cast<Index>(piece.batch) * heads + piece.head_kv) / section;
    if (here == last_section) CHECK(piece.tile <= last_tile);  // longest first
    CHECK(here >= last_section);
    last_tile = piece.tile;
    last_section = here;
  }
}

}  // namespace

TEST_CASE("schedule: every piece exactly once, sections in order, later tiles first") {
  for (const int32_t section : {1, 2, 3, 6, 100}) {
    check_order<int32_t>(2, 3, 5, 2, section);
    check_order<int64_t>(2, 3, 5, 2, section);
    check_order<int32_t>(7, 1, 1, 3, section);
  }
}

TEST_CASE("schedule: more blocks than 32 bits count") {
  const int64_t pairs = int64_t{3} << 31;
  const Piece piece = piece_at<int64_t>(pairs * 2 - 1, pairs, 3, 2, 1, pairs);
  CHECK(piece.batch == INT32_MAX);
  CHECK(piece.head_kv == 2);
  CHECK(piece.tile == 0);
}

}  // namespace flashattn::gpu
