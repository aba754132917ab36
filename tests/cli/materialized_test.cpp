// SPDX-License-Identifier: Apache-2.0
// Attention with a stored score matrix against the oracle, which shares only the visible range with it.
#include "tools/cli/materialized.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/cli/problem.h"
#include "tools/cli/reference.h"

using namespace flashattn::cli;

namespace {

struct Case {
  explicit Case(uint32_t seed)
      : generator(seed),
        q(random_tensor(generator, Element::kF16, {2, 13, 6, 10})),
        k(random_tensor(generator, Element::kF32, {2, 19, 2, 10})),
        v(random_tensor(generator, Element::kBf16, {2, 19, 2, 7})),
        heads(random_tensor(generator, Element::kF32, {2, 6})),
        bias(random_tensor(generator, Element::kF32, {6, 13, 19})),
        mask(random_tensor(generator, Element::kU8, {13, 19})) {
    problem.q = make_view("q", q, Layout::kBshd);
    problem.k = make_view("k", k, Layout::kBshd);
    problem.v = make_view("v", v, Layout::kBshd);
  }

  double error() const {
    const ReferenceResult<double> oracle = attention_float64(problem, 2);
    Materialized materialized(problem, 2);
    materialized.run();
    materialized.run();  // it must not depend on what a run leaves behind
    double worst = 0;
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t i = 0; i < 13; ++i) {
        for (int64_t h = 0; h < 6; ++h) {
          for (int64_t d = 0; d < 7; ++d) {
            const double wanted = oracle.o[static_cast<size_t>(((b * 13 + i) * 6 + h) * 7 + d)];
            const double got = materialized.o()[static_cast<size_t>(((b * 6 + h) * 13 + i) * 7 + d)];
            worst = std::max(worst, std::isnan(got) ? INFINITY : std::fabs(got - wanted));
          }
        }
      }
    }
    return worst;
  }

  std::mt19937 generator;
  Tensor q, k, v, heads, bias, mask;
  Attention problem;
};

}  // namespace

TEST_CASE("materialised attention agrees with the oracle, feature by feature and together") {
  Case c(std::random_device{}());
  CHECK(c.error() < 2e-5);
  c.problem.causal = true;
  CHECK(c.error() < 2e-5);
  c.problem.diag_offset = -9;  // rows without a key
  CHECK(c.error() < 2e-5);
  c.problem.window = true;
  c.problem.window_left = 3;
  c.problem.window_right = 2;
  CHECK(c.error() < 2e-5);
  c.problem.softcap = 1.5F;
  CHECK(c.error() < 2e-5);
  c.problem.alibi = {&c.heads, 6};
  CHECK(c.error() < 2e-5);
  c.problem.bias = {&c.bias, 0, 13 * 19, 19, 1};
  CHECK(c.error() < 2e-5);
  c.problem.bias = {&c.mask, 0, 0, 19, 1};
  CHECK(c.error() < 2e-5);
  c.problem.sinks = {&c.heads, 0};
  CHECK(c.error() < 2e-5);
  c.problem.scale = 0.7F;
  CHECK(c.error() < 2e-5);
}

TEST_CASE("materialised attention says what its score matrix takes") {
  const Case c(1);
  CHECK(Materialized(c.problem, 1).score_bytes() == 2 * 6 * 13 * 19 * 4);
  CHECK(materialized_fits(c.problem));
  Attention large = c.problem;
  large.q.seqlen = large.k.seqlen = 2147483647;
  CHECK(!materialized_fits(large));
}
