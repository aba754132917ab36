// SPDX-License-Identifier: Apache-2.0
// Four ways to compute O = softmax(scale Q K^T) V, from the definition to the tiled form.
#pragma once

#include <cstdint>

namespace flashattn::ladder {

// One head. Q, K, V and O are [n][dim], contiguous, float32. Causal: query i sees key j when j <= i.
struct Problem {
  int64_t n;
  int64_t dim;
  float scale;
  bool causal;
  const float *q;
  const float *k;
  const float *v;
  float *o;

  // The keys [0, seen(i)) are those query i sees.
  int64_t seen(int64_t i) const { return causal ? i + 1 : n; }
};

struct Rung {
  const char *name;
  const char *stores;  // what lies in its intermediates
  // Floats of everything stored beside Q, K, V and O.
  int64_t (*intermediate_floats)(int64_t n, int64_t dim, int threads);
  // memory has room for that many, uninitialised.
  void (*run)(const Problem &problem, int threads, float *memory);
};

inline constexpr int kRungs = 4;
// In the order of the ladder: naive, blocked, fused, flash.
extern const Rung kLadder[kRungs];

// The last rung with any tile: rows and keys >= 1. Its result does not depend on them but for rounding.
int64_t flash_floats(int64_t dim, int threads, int64_t tile_rows, int64_t tile_keys);
void flash_tiled(const Problem &problem, int threads, float *memory, int64_t tile_rows, int64_t tile_keys);

}  // namespace flashattn::ladder
