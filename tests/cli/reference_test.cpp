// SPDX-License-Identifier: Apache-2.0
// The float64 oracle on problems small enough to work out by hand.
#include "tools/cli/reference.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

using namespace flashattn::cli;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor floats(const Shape &shape, const std::vector<float> &values) {
  Tensor tensor(Element::kF32, shape);
  REQUIRE(tensor.count() == static_cast<int64_t>(values.size()));
  std::memcpy(tensor.data(), values.data(), values.size() * sizeof(float));
  return tensor;
}

// One head of dimension 1, scale 1: the score of (i, j) is q[i] * k[j].
struct Scalars {
  Scalars(const std::vector<float> &q_values, const std::vector<float> &k_values,
          const std::vector<float> &v_values)
      : q(floats({static_cast<int64_t>(q_values.size()), 1, 1}, q_values)),
        k(floats({static_cast<int64_t>(k_values.size()), 1, 1}, k_values)),
        v(floats({static_cast<int64_t>(v_values.size()), 1, 1}, v_values)) {
    problem.q = make_view("q", q, Layout::kBshd);
    problem.k = make_view("k", k, Layout::kBshd);
    problem.v = make_view("v", v, Layout::kBshd);
    problem.scale = 1;
  }
  ReferenceResult<double> run() const { return attention_float64(problem, 1); }

  Tensor q, k, v;
  Attention problem;
};

}  // namespace

TEST_CASE("oracle: equal scores average V; LSE is the natural logarithm") {
  const auto result = Scalars({0}, {1, 2, 3, 4}, {1, 2, 3, 6}).run();
  CHECK(result.o[0] == doctest::Approx(3.0).epsilon(1e-15));
  CHECK(result.lse[0] == doctest::Approx(std::log(4.0)).epsilon(1e-15));
}

TEST_CASE("oracle: softmax of two scores; the default scale is 1/sqrt(dim)") {
  Scalars s({2}, {1, 0.5F}, {10, 20});
  const double p = 1 / (1 + std::exp(-1.0));
  CHECK(s.run().o[0] == doctest::Approx(10 * p + 20 * (1 - p)).epsilon(1e-15));
  const Tensor q = floats({1, 1, 4}, {1, 1, 1, 1});
  const Tensor k = floats({2, 1, 4}, {1, 1, 1, 1, 0, 0, 0, 0});
  s.problem.q = make_view("q", q, Layout::kBshd);
  s.problem.k = make_view("k", k, Layout::kBshd);
  s.problem.scale = 0;
  CHECK(s.run().lse[0] == doctest::Approx(std::log(std::exp(2.0) + 1)).epsilon(1e-15));
}

TEST_CASE("oracle: causal is aligned bottom-right, and diag_offset moves it") {
  Scalars s({0, 0}, {0, 0, 0}, {1, 2, 6});
  s.problem.causal = true;
  CHECK(s.run().o == std::vector<double>{1.5, 3});
  s.problem.diag_offset = -1;  // n_q - n_k: top-left
  CHECK(s.run().o == std::vector<double>{1, 1.5});
  s.problem.diag_offset = -2;
  const auto result = s.run();
  CHECK(result.o == std::vector<double>{0, 1});
  CHECK(result.lse[0] == -kInfinity);
}

TEST_CASE("oracle: a window includes both ends") {
  Scalars s({0, 0, 0, 0}, {0, 0, 0, 0}, {1, 2, 4, 8});
  s.problem.window = true;
  s.problem.window_left = 1;
  s.problem.window_right = 0;
  CHECK(s.run().o == std::vector<double>{1, 1.5, 3, 6});
  s.problem.window_left = 0;
  s.problem.window_right = 1;
  CHECK(s.run().o == std::vector<double>{1.5, 3, 6, 8});
  s.problem.window_left = -1;
  CHECK(s.run().o[3] == 3.75);
}

TEST_CASE("oracle: softcap, then ALiBi, then bias") {
  Scalars s({1}, {3, 1}, {0, 0});
  s.problem.softcap = 2;
  const Tensor slopes = floats({1}, {0.5F});
  const Tensor bias = floats({1, 2}, {0.25F, -0.75F});
  s.problem.alibi.tensor = &slopes;
  s.problem.bias = {&bias, 0, 0, 0, 1};
  const double first = 2 * std::tanh(1.5) - 0.5 * 1 + 0.25;  // the diagonal is at key 1
  const double second = 2 * std::tanh(0.5) - 0.75;
  CHECK(s.run().lse[0] == doctest::Approx(std::log(std::exp(first) + std::exp(second))).epsilon(1e-15));
}

TEST_CASE("oracle: a sink joins the denominator only") {
  Scalars s({0}, {0}, {8});
  const Tensor sink = floats({1}, {std::log(3.0F)});
  s.problem.sinks.tensor = &sink;
  CHECK(s.run().o[0] == doctest::Approx(2.0).epsilon(1e-7));
  CHECK(s.run().lse[0] == doctest::Approx(std::log(4.0)).epsilon(1e-7));
  s.problem.causal = true;
  s.problem.diag_offset = -1;  // no key left
  CHECK(s.run().o[0] == 0);
  CHECK(s.run().lse[0] == static_cast<double>(std::log(3.0F)));
}

TEST_CASE("oracle: a key hidden by bias or mask is never read, large logits are ordinary numbers") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Scalars s({1, 1}, {-1e6F, 0}, {7, nan});
  const Tensor bias = floats({1, 2}, {0, -std::numeric_limits<float>::infinity()});
  s.problem.bias = {&bias, 0, 0, 0, 1};
  CHECK(s.run().o == std::vector<double>{7, 7});
  CHECK(s.run().lse[0] == -1e6);
  Tensor mask(Element::kU8, {2, 2});
  static_cast<unsigned char *>(mask.data())[0] = 200;  // row 0 sees key 0, row 1 sees none
  s.problem.bias = {&mask, 0, 0, 2, 1};
  CHECK(s.run().o == std::vector<double>{7, 0});
  CHECK(s.run().lse[1] == -kInfinity);
}

TEST_CASE("oracle: a NaN at a visible key reaches the row") {
  Scalars s({1, 1}, {0, std::numeric_limits<float>::quiet_NaN()}, {1, 1});
  s.problem.causal = true;
  const auto result = s.run();
  CHECK(result.o[0] == 1);
  CHECK(std::isnan(result.o[1]));
  CHECK(std::isnan(result.lse[1]));
}

TEST_CASE("views: query head h reads KV head h / group, in either layout and with a batch") {
  const Tensor q(Element::kF32, {2, 3, 4, 5});
  const View bshd = make_view("q", q, Layout::kBshd);
  CHECK(bshd.seqlen == 3);
  CHECK(bshd.row(1, 2, 3) == ((1 * 3 + 2) * 4 + 3) * 5);
  const View bhsd = make_view("q", q, Layout::kBhsd);
  CHECK(bhsd.heads == 3);
  CHECK(bhsd.row(1, 2, 1) == ((1 * 3 + 1) * 4 + 2) * 5);
  CHECK(like(bhsd, Layout::kBhsd, 7) == Shape{2, 3, 4, 7});
  CHECK_THROWS(make_view("q", Tensor(Element::kF32, {2, 3}), Layout::kBshd));
  CHECK_THROWS(make_view("q", Tensor(Element::kF32, {0, 2147483648, 3}), Layout::kBshd));

  Scalars s({0}, {0}, {0});
  const Tensor q4 = floats({1, 4, 1}, {0, 0, 0, 0});
  const Tensor k2 = floats({1, 2, 1}, {0, 0});
  const Tensor v2 = floats({1, 2, 1}, {5, 9});
  s.problem.q = make_view("q", q4, Layout::kBshd);
  s.problem.k = make_view("k", k2, Layout::kBshd);
  s.problem.v = make_view("v", v2, Layout::kBshd);
  CHECK(s.run().o == std::vector<double>{5, 5, 9, 9});
}
