// SPDX-License-Identifier: Apache-2.0
// What normalisation makes of valid problems.
#include "src/problem.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "tests/src/fixture.h"

namespace flashattn::testing {
namespace {

flashattn_problem_t normalised(const flashattn_problem_t &problem) {
  flashattn_problem_t result;
  REQUIRE(normalise_problem(&problem, &result) == kOk);
  return result;
}

TEST_CASE("defaults are resolved") {
  Fixture fixture;
  fixture.problem.head_dim_v = 0;
  fixture.problem.head_dim = 72;
  fixture.problem.dtype_q = FLASHATTN_DTYPE_BF16;
  const flashattn_problem_t result = normalised(fixture.problem);
  CHECK(result.dtype_o == FLASHATTN_DTYPE_BF16);
  CHECK(result.head_dim_v == 72);
  CHECK(result.softmax_scale == static_cast<float>(1.0 / std::sqrt(72.0)));
  // A normalised problem is a fixed point.
  const flashattn_problem_t again = normalised(result);
  CHECK(std::memcmp(&again, &result, sizeof result) == 0);
}

TEST_CASE("what is set stays set") {
  Fixture fixture;
  fixture.problem.dtype_o = FLASHATTN_DTYPE_F16;
  fixture.problem.softmax_scale = -0.25F;
  fixture.problem.softcap = 30.0F;
  const flashattn_problem_t result = normalised(fixture.problem);
  CHECK(result.dtype_o == FLASHATTN_DTYPE_F16);
  CHECK(result.head_dim_v == 4);
  CHECK(result.softmax_scale == -0.25F);
  CHECK(result.softcap == 30.0F);
}

TEST_CASE("causal folds the right end of a window; a window open on both sides is none") {
  struct Row {
    int32_t causal, left, right;
    bool window;
    int32_t result_left, result_right;
  };
  constexpr Row kRows[] = {{0, 4, 7, true, 4, 7},    {1, 4, 7, true, 4, 0},   {1, 4, -1, true, 4, 0},
                           {0, 4, -1, true, 4, -1},  {0, -1, 0, true, -1, 0}, {0, -1, -1, false, 0, 0},
                           {1, -1, -1, false, 0, 0}, {1, -1, 3, false, 0, 0}, {0, 0, 0, true, 0, 0}};
  for (const Row &row : kRows) {
    CAPTURE(row.causal);
    CAPTURE(row.left);
    CAPTURE(row.right);
    Fixture fixture;
    fixture.problem.features = FLASHATTN_FEATURE_WINDOW;
    fixture.problem.causal = row.causal;
    fixture.problem.window_left = row.left;
    fixture.problem.window_right = row.right;
    const flashattn_problem_t result = normalised(fixture.problem);
    CHECK(result.causal == row.causal);
    CHECK((result.features == FLASHATTN_FEATURE_WINDOW) == row.window);
    CHECK(result.window_left == row.result_left);
    CHECK(result.window_right == row.result_right);
  }
}

TEST_CASE("bytes after the end of a kernel's name do not make another problem") {
  Fixture fixture;
  const flashattn_problem_t clean = normalised(fixture.problem);
  fixture.problem.kernel[5] = 'x';
  const flashattn_problem_t result = normalised(fixture.problem);
  CHECK(std::memcmp(&result, &clean, sizeof clean) == 0);
}

TEST_CASE("generous maxima are valid as long as their products are") {
  Fixture fixture;
  fixture.problem.max_seqlen_q = INT32_MAX;
  fixture.problem.max_seqlen_kv = INT32_MAX;
  fixture.problem.max_batch = 64;
  fixture.problem.num_heads_q = fixture.problem.num_heads_kv = 128;
  fixture.problem.head_dim = 256;
  normalised(fixture.problem);
}

TEST_CASE("materialised bytes: twice the f32 score matrix at the maxima, saturated") {
  Fixture fixture;
  CHECK(materialized_bytes(fixture.problem) == 2ULL * 2 * 4 * 3 * 5 * 4);
  fixture.problem.max_seqlen_kv = 0;
  CHECK(materialized_bytes(fixture.problem) == 0);
  fixture.problem.max_batch = 1 << 20;
  fixture.problem.max_seqlen_q = fixture.problem.max_seqlen_kv = INT32_MAX;
  CHECK(materialized_bytes(fixture.problem) == UINT64_MAX);
  fixture.problem.max_batch = 1;
  fixture.problem.num_heads_q = 1;
  CHECK(materialized_bytes(fixture.problem) == UINT64_MAX);  // 2 * 4 * (2^31 - 1)^2 is 2^65 less a little
}

}  // namespace
}  // namespace flashattn::testing
