// SPDX-License-Identifier: Apache-2.0
// AVX-512 for a processor that has AVX2 only. Included before anything else (-include): Highway then finds SIMDe's
// functions under the names of the AVX-512 intrinsics, and the compiler is given no instruction beyond AVX2's.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

#include <cstring>

// Highway's choice of target would otherwise follow the compiler's flags.
#define HWY_BASELINE_TARGETS (HWY_SCALAR | HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3)
#include <hwy/base.h>

// And it would have its functions compiled for that target, by pragmas and by attributes.
#undef HWY_PUSH_ATTRIBUTES
#define HWY_PUSH_ATTRIBUTES(targets)
#undef HWY_POP_ATTRIBUTES
#define HWY_POP_ATTRIBUTES
#undef HWY_HAS_ATTRIBUTE
#define HWY_HAS_ATTRIBUTE(name) 0

// What the kernels need and SIMDe lacks; Intel's Intrinsics Guide is the source. The names are taken by the compiler's
// own functions, so macros lead to these.
namespace flashattn::cpu::test::avx512 {

inline __m512i cvtepu16_epi32(__m256i a) {
  const __m256i halves[] = {_mm256_cvtepu16_epi32(_mm256_castsi256_si128(a)),
                            _mm256_cvtepu16_epi32(_mm256_extracti128_si256(a, 1))};
  __m512i result;
  std::memcpy(&result, halves, sizeof result);
  return result;
}

inline __m512 cvtph_ps(__m256i a) {
  const __m256 halves[] = {_mm256_cvtph_ps(_mm256_castsi256_si128(a)),
                           _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1))};
  __m512 result;
  std::memcpy(&result, halves, sizeof result);
  return result;
}

template <int kRounding>
__m256i cvtps_ph(__m512 a) {
  __m256 halves[2];
  std::memcpy(halves, &a, sizeof a);
  return _mm256_set_m128i(_mm256_cvtps_ph(halves[1], kRounding), _mm256_cvtps_ph(halves[0], kRounding));
}

template <int kHalf>
__m256 extractf32x8_ps(__m512 a) {
  __m256 halves[2];
  std::memcpy(halves, &a, sizeof a);
  return halves[kHalf];
}

// A lane's bit is set where the lane is in one of kClasses (vfpclassps, Intel SDM volume 2C).
template <int kClasses>
__mmask16 fpclass_ps_mask(__m512 a) {
  constexpr int kQuietNan = 0x01, kPlusInf = 0x08, kMinusInf = 0x10, kSignallingNan = 0x80;
  static_assert((kClasses & ~(kQuietNan | kPlusInf | kMinusInf | kSignallingNan)) == 0);
  unsigned lanes[16];
  std::memcpy(lanes, &a, sizeof a);
  unsigned mask = 0;
  for (unsigned n = 0; n < 16; ++n) {
    const unsigned magnitude = lanes[n] & 0x7FFFFFFFU;
    int lane_class = 0;
    if (magnitude > 0x7F800000U) lane_class = (magnitude & 0x400000U) != 0 ? kQuietNan : kSignallingNan;
    if (magnitude == 0x7F800000U) lane_class = lanes[n] == magnitude ? kPlusInf : kMinusInf;
    if ((kClasses & lane_class) != 0) mask |= 1U << n;
  }
  return static_cast<__mmask16>(mask);
}

inline __mmask16 kand(__mmask16 a, __mmask16 b) {
  return static_cast<__mmask16>(a & b);
}

}  // namespace flashattn::cpu::test::avx512

#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32(a) flashattn::cpu::test::avx512::cvtepu16_epi32(a)
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps(a) flashattn::cpu::test::avx512::cvtph_ps(a)
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph(a, rounding) flashattn::cpu::test::avx512::cvtps_ph<rounding>(a)
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps(a, half) flashattn::cpu::test::avx512::extractf32x8_ps<half>(a)
#undef _mm512_fpclass_ps_mask
#define _mm512_fpclass_ps_mask(a, classes) flashattn::cpu::test::avx512::fpclass_ps_mask<classes>(a)
#undef _mm512_kand
#define _mm512_kand(a, b) flashattn::cpu::test::avx512::kand(a, b)
// SIMDe 0.7.4 gives this name the parameters of the masked function.
#undef _mm512_madd_epi16
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16(a, b)
