// SPDX-License-Identifier: Apache-2.0
// A check that cannot fail proves nothing: results are spoilt one element at a time.
#include "tools/cli/check.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/cli/problem.h"
#include "tools/cli/reference.h"

using namespace flashattn::cli;

namespace {

void set(Tensor *tensor, int64_t index, double value) {
  const auto rounded = static_cast<float>(value);
  std::memcpy(static_cast<char *>(tensor->data()) + index * 4, &rounded, sizeof rounded);
}

struct Case {
  Case() : generator(std::random_device{}()) {
    problem.q = make_view("q", q, Layout::kBhsd);
    problem.k = make_view("k", k, Layout::kBhsd);
    problem.v = make_view("v", v, Layout::kBhsd);
    problem.causal = true;
    const ReferenceResult<double> oracle = attention_float64(problem, 1);
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t d = 0; d < 3; ++d)
          set(&o, (h * 5 + i) * 3 + d, oracle.o[static_cast<size_t>((i * 2 + h) * 3 + d)]);
        set(&lse, h * 5 + i, oracle.lse[static_cast<size_t>(h * 5 + i)]);
      }
    }
  }
  CheckResult run() const { return check(problem, Layout::kBhsd, o, lse, 1); }

  std::mt19937 generator;
  Tensor q = random_tensor(generator, Element::kF16, {2, 5, 8});
  Tensor k = random_tensor(generator, Element::kF16, {1, 4, 8});  // one row fewer: query 0 sees no key
  Tensor v = random_tensor(generator, Element::kF16, {1, 4, 3});
  Tensor o{Element::kF32, {2, 5, 3}};
  Tensor lse{Element::kF32, {2, 5}};
  Attention problem;
};

}  // namespace

TEST_CASE("check: the rounded oracle passes") {
  const CheckResult result = Case().run();
  CHECK(result.ok());
  CHECK(result.o_error < 1e-6);
  CHECK(result.o_reference_error > 1e-6);  // probabilities were rounded to f16
}

TEST_CASE("check: any one wrong element of O is found") {
  const Case good;
  const double bound = 2 * good.run().o_reference_error + 1e-6;
  for (int64_t i = 0; i < good.o.count(); ++i) {
    for (const double wrong : {good.o.at(i) + 2 * bound, std::nan(""), HUGE_VAL}) {
      Case c;
      c.q = good.q, c.k = good.k, c.v = good.v, c.o = good.o, c.lse = good.lse;
      set(&c.o, i, wrong);
      CHECK(!c.run().o_ok);
      CHECK(c.run().lse_ok);
    }
  }
}

TEST_CASE("check: any one wrong LSE is found, the -inf of an empty row included") {
  const Case good;
  for (int64_t i = 0; i < good.lse.count(); ++i) {
    for (const double wrong :
         {good.lse.at(i) + 3e-5 * std::max(1.0, std::fabs(double{good.lse.at(i)})), std::nan(""), 1e3}) {
      Case c;
      c.q = good.q, c.k = good.k, c.v = good.v, c.o = good.o, c.lse = good.lse;
      set(&c.lse, i, wrong);
      CHECK(!c.run().lse_ok);
      CHECK(c.run().o_ok);
    }
  }
}
