// SPDX-License-Identifier: Apache-2.0
// Online softmax of the two rows a thread shares with the three other lanes of its quad.
//
// p = 2^(c s - c m), c = scale * log2(e), with m a reference of the row. Any m gives the same quotient O / l,
// so m need not be the maximum: it has to be near enough that neither p nor the sums leave the range of their
// types.
//  Running maximum: m follows the maximum once it is exceeded by 2^8; p <= 2^8 fits f16 and bf16.
//  Fixed reference: m is the first block's maximum, and only the row sum is watched. It is tested after a
//  block's exponentials and before they are rounded to P; past 2^15 the reference moves so that the sum is
//  2^8. So p <= 2^15 whenever it is rounded, which fits f16 too. A score more than 100 above the reference
//  (log2) gives the row up: its sum becomes NaN, and the tile is run again with the running maximum.
#pragma once

#include <cmath>

#include "../ptx/math.cuh"

namespace flashattn::sm90 {

constexpr float kMaxGrowth = 8.0f;  // log2
constexpr float kSumLimit = 0x1p15f;
constexpr float kSumTarget = 8.0f;          // log2
constexpr float kSumFailure = 0x1p100f;     // the factor that undoes it must be a normal number
constexpr float kLargeReference = 2048.0f;  // log2; see Rows::subtract_first

struct Rows {
  float reference[2];  // m, in units of the raw score; -inf while no key was visible
  float offset[2];     // c m as the exponent sees it; 0 when subtract_first or m = -inf
  float sum[2];        // this lane's part of l
  // c m has a rounding error of half its last place, which becomes a factor on p. It cancels in O / l but for
  // P's rounding, as long as it is small against the element type's; for |c m| > 2048 the scores are
  // subtracted first.
  bool subtract_first;

  __device__ void reset() {
    for (int r = 0; r < 2; ++r) reference[r] = -INFINITY, offset[r] = 0.0f, sum[r] = 0.0f;
    subtract_first = false;
  }

  // log2 of the factor every p of row r lacks.
  __device__ float logarithm(int r, float c) const { return subtract_first ? reference[r] * c : offset[r]; }
};

__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// The maximum of each row in this block, and whether any row of the warp outgrew its reference by more than
// `growth`.
template <int kCount>
__device__ inline bool outgrown(const float *s, const Rows &rows, float c, float (&top)[2]) {
  top[0] = fmaxf(s[0], s[1]);
  top[1] = fmaxf(s[2], s[3]);
#pragma unroll
  for (int i = 4; i < kCount; ++i) top[i / 2 % 2] = fmaxf(top[i / 2 % 2], s[i]);
#pragma unroll
  for (int r = 0; r < 2; ++r) top[r] = quad_max(top[r]);
  return __any_sync(0xffffffffu, (top[0] - rows.reference[0]) * c > kMaxGrowth ||
                                     (top[1] - rows.reference[1]) * c > kMaxGrowth);
}

// Moves the references of the rows that outgrew them; `factor` is for everything accumulated so far. Whether
// a row moves depends on that row alone; large references switch the whole warp to subtracting first.
__device__ inline void follow_maximum(Rows &rows, float c, const float (&top)[2], float (&factor)[2]) {
  bool large = false;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    factor[r] = 1.0f;
    if ((top[r] - rows.reference[r]) * c > kMaxGrowth) {
      const float by = rows.subtract_first ? (rows.reference[r] - top[r]) * c : rows.offset[r] - top[r] * c;
      factor[r] = rows.reference[r] == -INFINITY ? 0.0f : ptx::exp2_approx(by);
      rows.reference[r] = top[r];
      rows.offset[r] = top[r] * c;
      rows.sum[r] *= factor[r];
    }
    large |= rows.reference[r] != -INFINITY && fabsf(rows.reference[r] * c) > kLargeReference;
  }
  rows.subtract_first = __any_sync(0xffffffffu, large);
  if (rows.subtract_first) rows.offset[0] = rows.offset[1] = 0.0f;
}

// s becomes p, and the sums grow by it.
template <int kCount>
__device__ inline void exponentiate(float *s, Rows &rows, float c) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) s[i] = ptx::exp2_approx(fmaf(s[i], c, -rows.offset[i / 2 % 2]));
#pragma unroll
  for (int i = 0; i < kCount; ++i) rows.sum[i / 2 % 2] += s[i];
}

// Nothing. A branch on the sums, never taken, keeps the assembler from moving what follows up past the
// exponentials; the fixed reference's test of the sums does the same for free. It is the same for the whole
// warp, because after a branch that may diverge the assembler no longer keeps addresses in uniform registers.
__device__ inline void fence_exponentials(const Rows &rows) {
  if (__any_sync(0xffffffffu, rows.sum[0] < 0.0f)) __nanosleep(0);
}

template <int kCount>
__device__ inline void subtract_reference(float *s, const Rows &rows) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float m = rows.reference[i / 2 % 2];
    s[i] -= m == -INFINITY ? 0.0f : m;
  }
}

// Fixed reference: after the first block, which found it. References too large for it fail the tile here.
__device__ inline void fix_reference(Rows &rows) {
  if (rows.subtract_first) rows.sum[0] = NAN;
}

__device__ inline bool sum_outgrown(const Rows &rows) {
  return __any_sync(0xffffffffu, rows.sum[0] > kSumLimit || rows.sum[1] > kSumLimit);
}

// Fixed reference: moves the reference of a row by its sum's logarithm, or gives the row up by making its sum
// NaN.
__device__ inline void follow_sum(Rows &rows, float (&factor)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float total = quad_sum(rows.sum[r]);
    factor[r] = 1.0f;
    if (total > kSumLimit) {
      const float to = rows.offset[r] + log2f(total) - kSumTarget;
      factor[r] = ptx::exp2_approx(rows.offset[r] - to);
      rows.offset[r] = to;
      const bool lost = total > kSumFailure || fabsf(to) > kLargeReference;
      rows.sum[r] = lost ? NAN : rows.sum[r] * factor[r];
    }
  }
}

// O *= factor, row by row.
template <int kCount>
__device__ inline void scale_rows(float *o, const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) o[i] *= factor[i / 2 % 2];
}

// P as the A operand of the second product: two column groups of eight make one k16 step.
template <int kCount, typename Element>
__device__ inline void pack_probabilities(const float *s, uint32_t *p) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) p[i] = ptx::pack<Element>(s[2 * i], s[2 * i + 1]);
}

}  // namespace flashattn::sm90
