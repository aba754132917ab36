// SPDX-License-Identifier: Apache-2.0
// The online softmax (Milakov & Gimelshein 2018, algorithm 3) of one row per lane pair: lanes l and l ^ 32 hold the
// scores of the same query row against different keys.
#pragma once

#include "backends/hip/kernels/common/math.h"
#include "backends/hip/kernels/gfx942/matrix.h"

namespace flashattn::hip {

// Where |maximum| * factor passes this, the rounding of that product would show in exp2 of a difference with it.
constexpr float kExtreme = 1024.0F;

__device__ __forceinline__ float other_half(float x) {
  return from_lane(x, (thread_index() % kWaveLanes) ^ 32);
}

template <int kTiles>
struct Softmax {
  float maximum = -kInfinity;
  float sum = 0.0F;  // of this lane's keys; the two halves are added at the end

  // Turns scores into exp2(factor * (score - maximum)). factor > 0 takes a score to log2 units. always_exact: the
  // largest score of a row gives exactly 1. Returns what O so far must be multiplied by.
  __device__ __forceinline__ float step(float factor, bool always_exact, Accumulator (&scores)[kTiles]) {
    float top = scores[0][0];
#pragma unroll
    for (int b = 0; b < kTiles; ++b) {
#pragma unroll
      for (int r = 0; r < 16; ++r) top = max_of(top, scores[b][r]);
    }
    top = max_of(max_of(top, other_half(top)), maximum);
    // A row that has seen no key keeps -inf; differences are then taken from 0, so that they stay -inf.
    const float reference = top == -kInfinity ? 0.0F : top;
    const float rescale = exp2_fast((maximum - reference) * factor);
    maximum = top;
    const float scaled = reference * factor;
    float added = 0.0F;
    // One multiply-add per score; where that would not be exact enough, a difference first.
    if (any_in_wave(always_exact || __builtin_fabsf(scaled) > kExtreme)) {
      const bool exact = always_exact || __builtin_fabsf(scaled) > kExtreme;
#pragma unroll
      for (int b = 0; b < kTiles; ++b) {
#pragma unroll
        for (int r = 0; r < 16; ++r) {
          const float power =
              exact ? (scores[b][r] - reference) * factor : __builtin_fmaf(scores[b][r], factor, -scaled);
          scores[b][r] = exp2_fast(power);
          added += scores[b][r];
        }
      }
    } else {
#pragma unroll
      for (int b = 0; b < kTiles; ++b) {
#pragma unroll
        for (int r = 0; r < 16; ++r) {
          scores[b][r] = exp2_fast(__builtin_fmaf(scores[b][r], factor, -scaled));
          added += scores[b][r];
        }
      }
    }
    sum = sum * rescale + added;
    return rescale;
  }

  __device__ __forceinline__ float total() const {
    return sum + other_half(sum);
  }
};

}  // namespace flashattn::hip
