// SPDX-License-Identifier: Apache-2.0
// Register and cache blocking of the SIMD kernels.
//
// Queries lie in the lanes: a panel of kPanel packed rows is kPanelVectors vectors wide, and everything per
// row (maximum, sum, mask, slope) is a vector as well. Per panel and block of keys,
//   scores  S[j][row] = K[j][:] . Q[row][:]   kKeyRows keys x kPanelVectors vectors of rows at a time,
//   values  O[row][:] += P[j][row] V[j][:]    kValueRows rows x kValueVectors vectors of columns at a time,
// so that K needs no transposition: its elements are broadcast from where they lie.
#pragma once

#include <hwy/cache_control.h>

#include <algorithm>

#include "backends/cpu/carve.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/simd/vec.h"

HWY_BEFORE_NAMESPACE();
namespace flashattn::cpu::HWY_NAMESPACE {

// AVX2 has 16 vector registers: 4 x 3 and 6 x 2 accumulators leave 4 for operands. AVX-512 and NEON have 32.
inline constexpr bool kManyRegisters = HWY_TARGET != HWY_AVX2;
inline constexpr int32_t kPanelVectors = 3;
inline constexpr int32_t kPanel = kPanelVectors * kLanes;
inline constexpr int32_t kKeyRows = kManyRegisters ? 8 : 4;
inline constexpr int32_t kValueRows = 6;
inline constexpr int32_t kValueVectors = kManyRegisters ? 4 : 2;
inline constexpr int32_t kValuePanel = kValueVectors * kLanes;
// Scores are computed for whole groups of keys: behind a block's last key that key is repeated this often at
// most.
inline constexpr int32_t kKeyPad = 8;
// Tiles of at most this many rows per KV head take their scores as dot products straight from K, without
// packing anything.
inline constexpr int32_t kDotRows = 8;
inline constexpr int32_t kMostHeads = 8;  // KV heads of a tile

static_assert(kPanel % kValueRows == 0);

HWY_INLINE int32_t round_up(int32_t n, int32_t to) {
  return (n + to - 1) / to * to;
}

struct Scratch {
  float *q;           // per KV head panels of [dim][kPanel]; for dot products rows of round_up(dim, kLanes)
  float *k;           // rows of round_up(dim, kLanes)
  float *v;           // panels of [keys][kValuePanel], the last one narrower
  float *s;           // scores, then probabilities: [keys + kKeyPad][kPanel] of one panel, or of all rows
  float *bias;        // [keys][kPanel], where there is a bias
  float *max;         // [KV heads][rows rounded up to panels]
  float *sum;         // likewise
  const char **rows;  // [2][keys + kKeyPad], where the rows of K and of V of the block lie
  const char **next_rows;  // likewise of the block after
};

HWY_INLINE Scratch carve_scratch(Carver *carver, const Shape &shape, const Blocking &blocking) {
  const int32_t keys = blocking.keys;
  const int64_t dim = round_up(shape.dim, kLanes);
  const int64_t dim_v = round_up(shape.dim_v, kLanes);
  const int64_t panel_rows = static_cast<int64_t>(blocking.heads) * round_up(blocking.rows, kPanel);
  Scratch scratch{};
  scratch.q = carver->take<float>(panel_rows * dim);
  scratch.k = carver->take<float>(keys * dim);
  scratch.v = carver->take<float>(keys * dim_v);
  const int32_t dot_lanes = round_up(blocking.heads * std::min(blocking.rows, kDotRows), kLanes);
  scratch.s = carver->take<float>(static_cast<int64_t>(keys + kKeyPad) * std::max(kPanel, dot_lanes));
  if (shape.dtype_bias != 0) scratch.bias = carver->take<float>(static_cast<int64_t>(keys) * kPanel);
  scratch.max = carver->take<float>(panel_rows);
  scratch.sum = carver->take<float>(panel_rows);
  scratch.rows = carver->take<const char *>(2 * static_cast<int64_t>(keys + kKeyPad));
  scratch.next_rows = carver->take<const char *>(2 * static_cast<int64_t>(keys + kKeyPad));
  return scratch;
}

// The rows of the next block, fetched into the cache a few at a time beside the work on this one.
class Ahead {
 public:
  // n rows of K at k and of V at v, of that many bytes.
  HWY_INLINE Ahead(const char *const *k, const char *const *v, int32_t n, int32_t k_bytes, int32_t v_bytes)
      : k_(k), v_(v), n_(n), k_bytes_(k_bytes), v_bytes_(v_bytes) {}

  HWY_INLINE int32_t rows() const { return 2 * n_; }

  HWY_INLINE void fetch(int32_t rows) {
    for (int32_t end = std::min(done_ + rows, 2 * n_); done_ < end; ++done_) {
      const bool key = done_ < n_;
      const char *row = key ? k_[done_] : v_[done_ - n_];
      const int32_t bytes = key ? k_bytes_ : v_bytes_;
      for (int32_t b = 0; b < bytes; b += 64) hwy::Prefetch(row + b);
    }
  }

 private:
  const char *const *k_;
  const char *const *v_;
  int32_t n_;
  int32_t k_bytes_;
  int32_t v_bytes_;
  int32_t done_ = 0;
};

// The rows of a block of K or V for several KV heads: row j of head h is h * head_stride bytes behind row j
// of the first one.
struct RowsOfHeads {
  const char *const *rows;
  int64_t head_stride;
  int32_t n;
  int32_t bytes;  // of a row

  HWY_INLINE const char *at(int32_t j, int32_t h) const { return rows[j] + h * head_stride; }

  HWY_INLINE void prefetch(int32_t j, int32_t h) const {
    if (j >= n) return;
    for (int32_t b = 0; b < bytes; b += 64) hwy::Prefetch(at(j, h) + b);
  }
};

}  // namespace flashattn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
