// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tools/cli/bench_case.h"
#include "tools/cli/error.h"
#include "tools/cli/host_memory.h"
#include "tools/cli/timing.h"

using namespace flashattn::cli;

namespace {

BenchCase plain() {
  BenchCase c;
  c.batch = 2;
  c.heads_q = 3;
  c.heads_kv = 1;
  c.seqlen_q = 4;
  c.seqlen_kv = 6;
  c.dim = 8;
  c.dim_v = 5;
  return c;
}

}  // namespace

TEST_CASE("bench: work counts the visible pairs only") {
  BenchCase c = plain();
  const double per_pair = 2 * (8 + 5) * 2 * 3;
  CHECK(attention_flop(BenchProblem(c).attention()) == per_pair * 24);
  c.causal = true;  // bottom-right aligned: 3 + 4 + 5 + 6
  CHECK(attention_flop(BenchProblem(c).attention()) == per_pair * 18);
  c.window = true;
  c.window_left = 1;
  CHECK(attention_flop(BenchProblem(c).attention()) == per_pair * 8);
  c.seqlen_kv = 1;  // only the last query sees the key: window and causality both allow it there alone
  CHECK(attention_flop(BenchProblem(c).attention()) == per_pair * 1);
}

TEST_CASE("bench: bytes are those of Q, K, V and O, each once") {
  BenchCase c = plain();
  c.element_kv = Element::kBf16;
  CHECK(tensor_bytes(c) == (8 + 5) * (2 * 3 * 4 * 4 + 2 * 1 * 6 * 2));
}

TEST_CASE("bench: a case is named by what differs from plain attention") {
  BenchCase c = plain();
  CHECK(case_text(c) == "f32 2x3/1x4/6x8/5");
  c.heads_kv = 3;
  c.seqlen_kv = 4;
  c.dim_v = 8;
  c.element_kv = Element::kF16;
  c.causal = true;
  c.sinks = true;
  CHECK(case_text(c) == "f32/f16 2x3x4x8, causal, sinks");
}

TEST_CASE("bench: tensors have a mean that is not zero, and every value is finite") {
  BenchCase c = plain();
  c.seqlen_q = 1000;
  c.element_q = Element::kBf16;
  c.bias = true;
  c.element_bias = Element::kU8;
  const BenchProblem problem(c);
  double sum = 0;
  for (const float x : to_floats(*problem.attention().q.tensor)) {
    REQUIRE(x >= -1.0F);
    REQUIRE(x <= 1.2F);
    sum += x;
  }
  CHECK(sum / static_cast<double>(problem.attention().q.tensor->count()) > 0.05);
  CHECK(problem.attention().bias.stride_q == c.seqlen_kv);
}

TEST_CASE("bench: a case beyond the memory is refused before it is allocated, with both sizes") {
  BenchCase c = plain();
  c.seqlen_kv = int64_t{1} << 31;
  c.dim = 1 << 16;
  std::string text;
  try {
    const BenchProblem problem(c);
  } catch (const Failure &failure) {
    text = failure.what();
  }
  CHECK(text.find("TiB; ") != std::string::npos);
  CHECK(text.find("of memory are available") != std::string::npos);
  CHECK(available_memory() > 0);
}

TEST_CASE("timing: median and quartiles of the samples") {
  const Spread s = spread_of({9, 1, 3, 7, 5});
  CHECK(s.median == 5);
  CHECK(s.lower == 3);
  CHECK(s.upper == 7);
  CHECK(s.samples == 5);
  CHECK(spread_of({}).samples == 0);
  CHECK(spread_of({2}).median == 2);
}

TEST_CASE("timing: a round goes through the contestants and back, and effort is met") {
  std::string order;
  const auto contestant = [&order](char name) {
    return [&order, name](int repeats) {
      order += name;
      volatile double x = 1;
      for (int i = 0; i < 100000 * repeats; ++i) x = x * 1.0000001;
    };
  };
  const auto spreads = time_interleaved({contestant('a'), contestant('b'), contestant('c')}, {2, 0});
  REQUIRE(spreads.size() == 3);
  REQUIRE(order.size() >= 12);
  CHECK(order.substr(order.size() - 12) == "abccbaabccba");
  for (const Spread &s : spreads) {
    CHECK(s.samples == 4);
    CHECK(s.median > 0);
    CHECK(s.lower <= s.median);
    CHECK(s.median <= s.upper);
  }
}
