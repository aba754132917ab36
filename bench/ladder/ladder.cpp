// SPDX-License-Identifier: Apache-2.0
#include "bench/ladder/ladder.h"

#include "bench/ladder/rungs.h"

namespace flashattn::ladder {

namespace {

constexpr int64_t kTileRows = 96;
constexpr int64_t kTileKeys = 64;

int64_t default_flash_floats(int64_t /*n*/, int64_t dim, int threads) {
  return flash_floats(dim, threads, kTileRows, kTileKeys);
}

void default_flash(const Problem &problem, int threads, float *memory) {
  flash_tiled(problem, threads, memory, kTileRows, kTileKeys);
}

}  // namespace

const Rung kLadder[kRungs] = {
    {"naive", "scores and probabilities", naive_floats, naive},
    {"blocked", "scores and probabilities", blocked_floats, blocked},
    {"fused", "one row of scores per thread", fused_floats, fused},
    {"flash", "one tile of scores per thread", default_flash_floats, default_flash},
};

}  // namespace flashattn::ladder
