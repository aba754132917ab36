// SPDX-License-Identifier: Apache-2.0
// The claims of docs/online-softmax.md, on the ladder's code and on every CPU kernel of the library.
#include "bench/ladder/online_softmax.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "flashattn.h"
#include "tests/ladder/head.h"

using namespace flashattn::ladder;
using flashattn::ladder::testing::difference;
using flashattn::ladder::testing::Head;
using flashattn::ladder::testing::oracle;

namespace {

// The state of all scores, taken in `step` at a time.
RowState absorbed(std::vector<float> scores, int64_t step) {
  RowState state;
  const auto n = static_cast<int64_t>(scores.size());
  for (int64_t j = 0; j < n; j += step) absorb(scores.data() + j, std::min(step, n - j), &state);
  return state;
}

double exact_lse(const std::vector<float> &scores) {
  const double m = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const float s : scores) sum += std::exp(s - m);
  return m + std::log(sum);
}

std::vector<float> random_scores(int64_t n, float mean, float deviation) {
  static std::mt19937 random{std::random_device{}()};
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> scores(static_cast<size_t>(n));
  std::generate(scores.begin(), scores.end(), [&] { return normal(random); });
  return scores;
}

// -- the library

void require(flashattn_status_t status) {
  INFO(flashattn_last_error());
  REQUIRE(status == FLASHATTN_STATUS_OK);
}

struct Destroy {
  void operator()(flashattn_handle_t *handle) const { flashattn_destroy(handle); }
};
using Handle = std::unique_ptr<flashattn_handle_t, Destroy>;

Handle open_cpu() {
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CPU;
  options.num_threads = 2;
  flashattn_handle_t *handle = nullptr;
  require(flashattn_create(&options, &handle));
  return Handle(handle);
}

std::vector<std::string> cpu_kernels() {
  std::vector<std::string> names;
  for (int32_t b = 0; b < flashattn_backend_count(); ++b) {
    flashattn_backend_info_t backend{};
    backend.struct_size = sizeof backend;
    require(flashattn_backend_info(b, &backend));
    if (backend.backend != FLASHATTN_BACKEND_CPU) continue;
    for (int32_t i = 0; i < backend.kernel_count; ++i) {
      flashattn_kernel_info_t kernel{};
      kernel.struct_size = sizeof kernel;
      require(flashattn_kernel_info(FLASHATTN_BACKEND_CPU, i, &kernel));
      if (kernel.available != 0) names.emplace_back(kernel.name);
    }
  }
  REQUIRE(!names.empty());
  return names;
}

struct Result {
  std::vector<float> o;
  std::vector<float> lse;
};

// Queries whose scores over the keys are `scores`, up to the rounding of one product: q = (1, 0, ...), K[j] =
// (scores[j], 0, ...), scale 1. `rows` equal queries, so that one row takes the decode form and many the panel form.
Result run_library(flashattn_handle_t *handle, const std::string &kernel, const std::vector<float> &scores,
                   const std::vector<float> &v, int32_t dim, int32_t rows, int32_t splits = 0) {
  const auto keys = static_cast<int32_t>(scores.size());
  std::vector<float> q(static_cast<size_t>(rows) * dim);
  std::vector<float> k(scores.size() * dim);
  for (int32_t r = 0; r < rows; ++r) q[static_cast<size_t>(r) * dim] = 1;
  for (size_t j = 0; j < scores.size(); ++j) k[j * dim] = scores[j];
  Result result{std::vector<float>(q.size(), std::nanf("")), std::vector<float>(rows, std::nanf(""))};

  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  problem.dtype_q = problem.dtype_kv = FLASHATTN_DTYPE_F32;
  problem.num_heads_q = problem.num_heads_kv = 1;
  problem.head_dim = dim;
  problem.max_batch = 1;
  problem.max_seqlen_q = rows;
  problem.max_seqlen_kv = keys;
  problem.softmax_scale = 1;
  problem.num_splits = splits;
  std::strncpy(problem.kernel, kernel.c_str(), sizeof problem.kernel - 1);
  flashattn_call_t call = FLASHATTN_CALL_INIT;
  call.batch = 1;
  call.seqlen_q = rows;
  call.seqlen_kv = keys;
  call.q.data = q.data();
  call.k.data = k.data();
  call.v.data = const_cast<float *>(v.data());
  call.o.data = result.o.data();
  call.lse.data = result.lse.data();
  require(flashattn_call_contiguous(&problem, &call));
  require(flashattn_attention(handle, &problem, &call, nullptr));
  return result;
}

// O by the definition, one row.
std::vector<double> exact_o(const std::vector<float> &scores, const std::vector<float> &v, int32_t dim) {
  const double lse = exact_lse(scores);
  std::vector<double> o(static_cast<size_t>(dim));
  for (size_t j = 0; j < scores.size(); ++j) {
    for (int32_t d = 0; d < dim; ++d) o[d] += std::exp(scores[j] - lse) * v[j * dim + d];
  }
  return o;
}

// Holds O and LSE of every kernel, in both forms, against the definition.
void check_library(const std::vector<float> &scores, double lse_tolerance) {
  constexpr int32_t kDim = 16;
  const std::vector<float> v = random_scores(static_cast<int64_t>(scores.size()) * kDim, 0.3F, 1);
  const std::vector<double> expected = exact_o(scores, v, kDim);
  const Handle handle = open_cpu();
  for (const std::string &kernel : cpu_kernels()) {
    for (const int32_t rows : {1, 40}) {
      CAPTURE(kernel);
      CAPTURE(rows);
      const Result result = run_library(handle.get(), kernel, scores, v, kDim, rows);
      for (int32_t r = 0; r < rows; ++r) {
        const auto row = result.o.begin() + static_cast<std::ptrdiff_t>(r) * kDim;
        CHECK(difference(std::vector<float>(row, row + kDim), expected) < 1e-5);
        CHECK(std::fabs(result.lse[r] - exact_lse(scores)) <= lse_tolerance);
      }
    }
  }
}

}  // namespace

TEST_CASE("online softmax: the size of the tile changes nothing but rounding") {
  const std::vector<float> scores = random_scores(777, 0.5F, 3);
  const RowState whole = absorbed(scores, 777);
  for (const int64_t step : {1, 2, 16, 100, 776}) {
    CAPTURE(step);
    const RowState state = absorbed(scores, step);
    CHECK(state.m == whole.m);  // a maximum is exact
    CHECK(state.d == doctest::Approx(whole.d).epsilon(1e-6));
  }

  const Head head(200, 24, true);
  const std::vector<double> expected = oracle(head);
  for (const int64_t rows : {1, 6, 33, 200, 500}) {
    for (const int64_t keys : {1, 2, 17, 64, 200, 333}) {
      CAPTURE(rows);
      CAPTURE(keys);
      std::vector<float> memory(static_cast<size_t>(flash_floats(head.dim, 2, rows, keys)));
      std::vector<float> o;
      flash_tiled(head.problem(&o), 2, memory.data(), rows, keys);
      CHECK(difference(o, expected) < 1e-5);
    }
  }
}

TEST_CASE("online softmax: rising scores move the maximum at every tile, falling ones never") {
  for (const float slope : {0.25F, -0.25F}) {
    CAPTURE(slope);
    std::vector<float> scores(1000);
    for (size_t j = 0; j < scores.size(); ++j) scores[j] = slope * static_cast<float>(j);
    std::vector<float> copy = scores;
    RowState state;
    int moved = 0;
    for (int64_t j = 0; j < 1000; j += 50) moved += absorb(copy.data() + j, 50, &state) != 1.0F ? 1 : 0;
    CHECK(moved == (slope > 0 ? 20 : 1));
    CHECK(lse(state) == doctest::Approx(exact_lse(scores)).epsilon(1e-6));
    check_library(scores, 1e-5 * std::fabs(exact_lse(scores)) + 1e-5);
  }
}

TEST_CASE("online softmax: scores of 1e4 neither overflow nor vanish") {
  for (const float mean : {1e4F, -1e4F}) {
    CAPTURE(mean);
    std::vector<float> scores = random_scores(600, mean, 2);
    const RowState state = absorbed(scores, 64);
    CHECK(std::isfinite(state.d));
    CHECK(state.d >= 1.0F);  // the largest score adds exp(0)
    CHECK(lse(state) == doctest::Approx(exact_lse(scores)).epsilon(1e-6));
    check_library(scores, 1e-5 * 1e4);
  }
  std::vector<float> both = random_scores(600, 1e4F, 2);
  for (size_t j = 0; j < both.size(); j += 2) both[j] = -both[j];
  check_library(both, 1e-5 * 1e4);
}

TEST_CASE("online softmax: a constant added to every score leaves O alone and moves LSE by it") {
  constexpr int32_t kDim = 16;
  constexpr float kShift = 512;  // with scores that are multiples of 2^-10 the sums are exact
  std::vector<float> scores = random_scores(500, 0, 3);
  for (float &s : scores) s = std::round(s * 1024) / 1024;
  std::vector<float> shifted = scores;
  for (float &s : shifted) s += kShift;
  CHECK(absorbed(shifted, 64).d == absorbed(scores, 64).d);
  CHECK(absorbed(shifted, 64).m == absorbed(scores, 64).m + kShift);

  const std::vector<float> v = random_scores(500 * kDim, 0.3F, 1);
  const Handle handle = open_cpu();
  for (const std::string &kernel : cpu_kernels()) {
    for (const int32_t rows : {1, 40}) {
      CAPTURE(kernel);
      CAPTURE(rows);
      const Result a = run_library(handle.get(), kernel, scores, v, kDim, rows);
      const Result b = run_library(handle.get(), kernel, shifted, v, kDim, rows);
      CHECK(std::memcmp(a.o.data(), b.o.data(), a.o.size() * sizeof(float)) == 0);
      CHECK(b.lse[0] - kShift == doctest::Approx(a.lse[0]).epsilon(1e-4));
    }
  }
}

TEST_CASE("online softmax: partial states merge to the state of the whole, in any grouping") {
  constexpr int32_t kDim = 16;
  const std::vector<float> scores = random_scores(900, 0.5F, 4);
  const auto part = [&](int64_t begin, int64_t end) {
    return absorbed({scores.begin() + begin, scores.begin() + end}, 64);
  };
  float keep_a;
  float keep_b;
  const RowState left =
      merge(merge(part(0, 10), part(10, 500), &keep_a, &keep_b), part(500, 900), &keep_a, &keep_b);
  const RowState right =
      merge(part(0, 10), merge(part(10, 500), part(500, 900), &keep_a, &keep_b), &keep_a, &keep_b);
  const RowState whole = part(0, 900);
  for (const RowState &state : {left, right}) {
    CHECK(state.m == whole.m);
    CHECK(state.d == doctest::Approx(whole.d).epsilon(1e-6));
  }

  const std::vector<float> v = random_scores(900 * kDim, 0.3F, 1);
  const std::vector<double> expected = exact_o(scores, v, kDim);
  const Handle handle = open_cpu();
  for (const std::string &kernel : cpu_kernels()) {
    for (const int32_t splits : {1, 2, 3, 7}) {
      CAPTURE(kernel);
      CAPTURE(splits);
      const Result result = run_library(handle.get(), kernel, scores, v, kDim, 1, splits);
      CHECK(difference(result.o, expected) < 1e-5);
      CHECK(result.lse[0] == doctest::Approx(exact_lse(scores)).epsilon(1e-5));
    }
  }
}

TEST_CASE("online softmax: the state of no score changes nothing, and scores of -inf are no scores") {
  const float kMinusInf = -INFINITY;
  const RowState empty;
  const RowState some = absorbed({1, 2, 3}, 2);
  float keep_a;
  float keep_b;
  for (const RowState &state : {merge(empty, some, &keep_a, &keep_b), merge(some, empty, &keep_a, &keep_b),
                                absorbed({kMinusInf, kMinusInf, 1, 2, kMinusInf, 3}, 2)}) {
    CHECK(state.m == some.m);
    CHECK(state.d == some.d);
  }
  const RowState none = merge(empty, absorbed({kMinusInf, kMinusInf}, 1), &keep_a, &keep_b);
  CHECK(none.d == 0.0F);
  CHECK(lse(none) == kMinusInf);
}

TEST_CASE("online softmax: LSE is m + ln d") {
  const std::vector<float> scores = random_scores(321, 2, 3);
  CHECK(lse(absorbed(scores, 50)) == doctest::Approx(exact_lse(scores)).epsilon(1e-6));
  check_library(scores, 1e-5 * std::max(1.0, std::fabs(exact_lse(scores))));
}
