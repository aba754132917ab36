// SPDX-License-Identifier: Apache-2.0
// The online softmax (Milakov & Gimelshein 2018, algorithm 3; Dao 2023, section 3.1): running maximum and sum
// per row, O rescaled when the maximum moves.
#pragma once

#include "backends/cuda/kernels/sm80/products.cuh"

namespace flashattn::cuda {

// Where |maximum| * factor passes this, the rounding of that product would show in exp2 of a difference with
// it.
constexpr float kExtreme = 1024.0F;

template <typename Tile>
struct Softmax {
  // Per 16-row tile and half of this lane. sum is this lane's share; the quad's four are added at the end.
  float maximum[Tile::kM][2];
  float sum[Tile::kM][2];

  __device__ void reset() {
#pragma unroll
    for (int m = 0; m < Tile::kM; ++m) {
      maximum[m][0] = maximum[m][1] = minus_infinity();
      sum[m][0] = sum[m][1] = 0.0F;
    }
  }

  // Turns scores into exp2(factor * (score - maximum)) and rescales o. factor > 0 takes a score to log2
  // units. always_exact: the largest score of a row gives exactly 1.
  __device__ void step(float factor, bool always_exact, Scores<Tile> &scores, Output<Tile> &o) {
    float rescale[Tile::kM][2], reference[Tile::kM][2];
    bool moved = false;
    bool exact = always_exact;
#pragma unroll
    for (int m = 0; m < Tile::kM; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = fmaxf(scores[m][0][half * 2], scores[m][0][half * 2 + 1]);
#pragma unroll
        for (int n = 1; n < Tile::kKeys / 8; ++n) {
          top = fmaxf(top, fmaxf(scores[m][n][half * 2], scores[m][n][half * 2 + 1]));
        }
        reference[m][half] = top;
      }
    }
#pragma unroll
    for (int m = 0; m < Tile::kM; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = reference[m][half];
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
        top = fmaxf(top, maximum[m][half]);
        // A row that has seen no key keeps -inf; differences are then taken from 0, so that they stay -inf.
        reference[m][half] = top == minus_infinity() ? 0.0F : top;
        rescale[m][half] = exp2_fast((maximum[m][half] - reference[m][half]) * factor);
        moved |= top != maximum[m][half];
        exact |= fabsf(reference[m][half] * factor) > kExtreme;
        maximum[m][half] = top;
      }
    }
    // Where no maximum in the warp moved, every factor is 1.
    if (__any_sync(0xffffffff, moved)) {
#pragma unroll
      for (int m = 0; m < Tile::kM; ++m) {
#pragma unroll
        for (int n = 0; n < Tile::kDim / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) o[m][n][e] *= rescale[m][e / 2];
        }
        sum[m][0] *= rescale[m][0];
        sum[m][1] *= rescale[m][1];
      }
    }
    if (__any_sync(0xffffffff, exact)) {
      exponentiate<true>(factor, always_exact, reference, scores);
    } else {
      exponentiate<false>(factor, false, reference, scores);
    }
  }

  // Adds up the quad's shares.
  __device__ void finish() {
#pragma unroll
    for (int m = 0; m < Tile::kM; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        sum[m][half] += __shfl_xor_sync(0xffffffff, sum[m][half], 1);
        sum[m][half] += __shfl_xor_sync(0xffffffff, sum[m][half], 2);
      }
    }
  }

 private:
  // One multiply-add per score, except in rows that must be exact or whose maximum is extreme: those subtract
  // first, which is exact near the maximum. Which way a row goes depends on that row and the call alone.
  template <bool kSomeExact>
  __device__ void exponentiate(float factor, bool always_exact, const float (&reference)[Tile::kM][2],
                               Scores<Tile> &scores) {
#pragma unroll
    for (int m = 0; m < Tile::kM; ++m) {
      const float scaled[2] = {reference[m][0] * factor, reference[m][1] * factor};
#pragma unroll
      for (int n = 0; n < Tile::kKeys / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float &score = scores[m][n][e];
          float power = fmaf(score, factor, -scaled[e / 2]);
          if (kSomeExact && (always_exact || fabsf(scaled[e / 2]) > kExtreme)) {
            power = (score - reference[m][e / 2]) * factor;
          }
          score = exp2_fast(power);
          sum[m][e / 2] += score;
        }
      }
    }
  }
};

}  // namespace flashattn::cuda
