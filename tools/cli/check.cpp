// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/cli/reference.h"

namespace flashattn::cli {

namespace {

// |got - wanted|; 0 for two NaN or two equal infinities, infinite when only one is not finite.
double distance(double got, double wanted) {
  if (std::isfinite(got) && std::isfinite(wanted)) return std::fabs(got - wanted);
  const bool same = (std::isnan(got) && std::isnan(wanted)) || got == wanted;
  return same ? 0 : std::numeric_limits<double>::infinity();
}

}  // namespace

CheckResult check(const Attention &problem, Layout layout, const Tensor &o, const Tensor &lse, int threads) {
  const ReferenceResult<double> oracle = attention_float64(problem, threads);
  const ReferenceResult<float> reference = attention_float32(problem, threads);
  CheckResult result;
  for (size_t i = 0; i < oracle.o.size(); ++i) {
    const double error = distance(reference.o[i], oracle.o[i]);
    if (std::isfinite(error)) result.o_reference_error = std::max(result.o_reference_error, error);
  }

  const View view = make_view("o", o, layout);
  size_t index = 0;
  for (int64_t b = 0; b < view.batch; ++b) {
    for (int64_t s = 0; s < view.seqlen; ++s) {
      for (int64_t h = 0; h < view.heads; ++h) {
        for (int64_t d = 0; d < view.dim; ++d, ++index) {
          const double wanted = oracle.o[index];
          const double error = distance(o.at(view.row(b, s, h) + d), wanted);
          const double unit = std::isfinite(wanted) ? ulp(o.element(), wanted) : 0;
          result.o_error = std::max(result.o_error, error);
          if (error > 2 * result.o_reference_error + unit) result.o_ok = false;
        }
      }
    }
  }
  for (size_t i = 0; i < oracle.lse.size(); ++i) {
    const double wanted = oracle.lse[i];
    const double error = distance(lse.at(static_cast<int64_t>(i)), wanted);
    result.lse_error = std::max(result.lse_error, error);
    const double size = std::isfinite(wanted) ? std::max(1.0, std::fabs(wanted)) : 1.0;
    if (error > 1e-5 * size) result.lse_ok = false;
  }
  return result;
}

}  // namespace flashattn::cli
