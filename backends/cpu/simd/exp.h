// SPDX-License-Identifier: Apache-2.0
// exp and tanh on vectors. Bounds are held by tests/backends/cpu/exp_test.cpp.
#pragma once

#include "backends/cpu/simd/vec.h"

HWY_BEFORE_NAMESPACE();
namespace flashattn::cpu::HWY_NAMESPACE {

// exp(x) for x <= 0, within 1 ulp; results below 2^-126 are 0; NaN stays NaN.
// With n = round(x / ln 2) and r = x - n ln 2: exp(x) = 2^n exp(r), |r| <= ln 2 / 2. exp(r) is
// 1 + r + r^2 q(r), q interpolated at Chebyshev nodes (relative error 2^-26.5).
HWY_INLINE Vector exp_negative(Vector x) {
  const F32 f32;
  // 1.5 * 2^23 makes the addition round to an integer and leave it in the low mantissa bits, 127 makes it a
  // biased exponent there.
  const Vector magic = hn::Set(f32, 12582912.0F + 127.0F);
  const Vector biased = hn::MulAdd(x, hn::Set(f32, 1.44269504F), magic);
  const Vector n = hn::Sub(biased, magic);
  // ln 2 in two parts, the first short enough for n times it to be exact.
  Vector r = hn::NegMulAdd(n, hn::Set(f32, 0x1.62e4p-1F), x);
  r = hn::NegMulAdd(n, hn::Set(f32, 1.42860677e-6F), r);
  Vector q = hn::MulAdd(hn::Set(f32, 1.392618359e-3F), r, hn::Set(f32, 8.363179053e-3F));
  q = hn::MulAdd(q, r, hn::Set(f32, 4.166655462e-2F));
  q = hn::MulAdd(q, r, hn::Set(f32, 1.666657699e-1F));
  q = hn::MulAdd(q, r, hn::Set(f32, 0.5F));
  q = hn::MulAdd(q, r, hn::Set(f32, 1.0F));
  q = hn::MulAdd(q, r, hn::Set(f32, 1.0F));
  const Vector power = hn::BitCast(f32, hn::ShiftLeft<23>(hn::BitCast(U32(), biased)));
  // Below ln 2^-126, -inf included, power is not a number to multiply with.
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(f32, -87.3365402F)), hn::Mul(q, power));
}

// tanh(x), within 2 ulp; NaN stays NaN. Below 0.625 x + x^3 p(x^2), p interpolated at Chebyshev nodes; above
// 1 - 2 / (exp(2 |x|) + 1) with the sign of x.
HWY_INLINE Vector tanh(Vector x) {
  const F32 f32;
  const Vector one = hn::Set(f32, 1.0F);
  const Vector z = hn::Mul(x, x);
  Vector p = hn::MulAdd(hn::Set(f32, -6.096714163e-3F), z, hn::Set(f32, 2.099717900e-2F));
  p = hn::MulAdd(p, z, hn::Set(f32, -5.385090958e-2F));
  p = hn::MulAdd(p, z, hn::Set(f32, 1.333276974e-1F));
  p = hn::MulAdd(p, z, hn::Set(f32, -3.333332894e-1F));
  const Vector small = hn::MulAdd(hn::Mul(p, z), x, x);
  const Vector magnitude = hn::Abs(x);
  // In terms of e = exp(-2 |x|): 1 - 2 e / (1 + e).
  const Vector e = exp_negative(hn::Mul(magnitude, hn::Set(f32, -2.0F)));
  const Vector large = hn::Sub(one, hn::Div(hn::Add(e, e), hn::Add(one, e)));
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(f32, 0.625F)), small, hn::CopySign(large, x));
}

}  // namespace flashattn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
