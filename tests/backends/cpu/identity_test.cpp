// SPDX-License-Identifier: Apache-2.0
// With FLASHATTN_FLAG_BATCH_INVARIANT a row's bits are the same in prefill and in decode, and for any number
// of threads also without the flag. Every kernel that this machine runs.
#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/convert.h"
#include "flashattn.h"

namespace flashattn::cpu::test {
namespace {

struct Setup {
  int32_t dtype;
  int32_t heads_q;
  int32_t heads_kv;
  int32_t dim;
  int32_t window_left;  // -1 = none
  float softcap;
  uint64_t flags;
};

struct Handle {
  explicit Handle(int32_t threads) {
    flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
    options.backend = FLASHATTN_BACKEND_CPU;
    options.num_threads = threads;
    REQUIRE(flashattn_create(&options, &handle) == FLASHATTN_STATUS_OK);
  }
  ~Handle() { flashattn_destroy(handle); }
  Handle(const Handle &) = delete;
  Handle &operator=(const Handle &) = delete;
  flashattn_handle_t *handle = nullptr;
};

std::vector<char> random_rows(size_t count, int32_t dtype, std::mt19937 *random) {
  std::normal_distribution<float> normal(0.2F, 1.0F);
  const size_t size = dtype == FLASHATTN_DTYPE_F32 ? 4 : 2;
  std::vector<char> rows(count * size);
  for (size_t i = 0; i < count; ++i) {
    const float value = normal(*random);
    store_row(dtype, &value, 1, rows.data() + i * size);
  }
  return rows;
}

// O in f32 and LSE of queries first .. n_k - 1, which see the keys up to their own.
struct Result {
  std::vector<float> o;
  std::vector<float> lse;
};

Result attend(const Handle &handle, const Setup &setup, const char *kernel, const std::vector<char> &q,
              const std::vector<char> &k, const std::vector<char> &v, int32_t first, int32_t n_k) {
  const int32_t n_q = n_k - first;
  const size_t size = setup.dtype == FLASHATTN_DTYPE_F32 ? 4 : 2;
  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  problem.dtype_q = problem.dtype_kv = setup.dtype;
  problem.dtype_o = FLASHATTN_DTYPE_F32;
  problem.num_heads_q = setup.heads_q;
  problem.num_heads_kv = setup.heads_kv;
  problem.head_dim = setup.dim;
  problem.max_batch = 1;
  problem.max_seqlen_q = n_q;
  problem.max_seqlen_kv = n_k;
  problem.causal = 1;
  problem.softcap = setup.softcap;
  problem.flags = setup.flags;
  if (setup.window_left >= 0) {
    problem.features = FLASHATTN_FEATURE_WINDOW;
    problem.window_left = setup.window_left;
  }
  std::snprintf(problem.kernel, sizeof problem.kernel, "%s", kernel);
  Result result;
  result.o.resize(static_cast<size_t>(n_q) * setup.heads_q * setup.dim);
  result.lse.resize(static_cast<size_t>(n_q) * setup.heads_q);
  flashattn_call_t call = FLASHATTN_CALL_INIT;
  call.batch = 1;
  call.seqlen_q = n_q;
  call.seqlen_kv = n_k;
  call.q.data = const_cast<char *>(q.data()) + static_cast<size_t>(first) * setup.heads_q * setup.dim * size;
  call.k.data = const_cast<char *>(k.data());
  call.v.data = const_cast<char *>(v.data());
  call.o.data = result.o.data();
  call.lse.data = result.lse.data();
  REQUIRE(flashattn_call_contiguous(&problem, &call) == FLASHATTN_STATUS_OK);
  call.lse.stride_head = 1;
  call.lse.stride_seq = setup.heads_q;
  const flashattn_status_t status = flashattn_attention(handle.handle, &problem, &call, nullptr);
  INFO(flashattn_last_error());
  REQUIRE(status == FLASHATTN_STATUS_OK);
  return result;
}

std::vector<std::string> kernels() {
  std::vector<std::string> names;
  flashattn_backend_info_t backend{};
  for (int32_t b = 0; b < flashattn_backend_count(); ++b) {
    backend.struct_size = sizeof backend;
    REQUIRE(flashattn_backend_info(b, &backend) == FLASHATTN_STATUS_OK);
    if (backend.backend != FLASHATTN_BACKEND_CPU) continue;
    for (int32_t k = 0; k < backend.kernel_count; ++k) {
      flashattn_kernel_info_t info{};
      info.struct_size = sizeof info;
      REQUIRE(flashattn_kernel_info(FLASHATTN_BACKEND_CPU, k, &info) == FLASHATTN_STATUS_OK);
      if (info.available != 0) names.emplace_back(info.name);
    }
  }
  return names;
}

bool same_bits(const std::vector<float> &a, size_t a_first, const std::vector<float> &b, size_t b_first,
               size_t n) {
  return std::memcmp(a.data() + a_first, b.data() + b_first, n * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("batch invariant: a row of prefill has the bits of its decode step") {
  std::mt19937 random(std::random_device{}());
  const Handle handle(2);
  const uint64_t flags = FLASHATTN_FLAG_BATCH_INVARIANT;
  for (const Setup &setup : {Setup{FLASHATTN_DTYPE_F32, 1, 1, 64, -1, 0.0F, flags},
                             Setup{FLASHATTN_DTYPE_BF16, 8, 2, 128, -1, 0.0F, flags},
                             Setup{FLASHATTN_DTYPE_F16, 6, 2, 80, 100, 20.0F, flags},
                             Setup{FLASHATTN_DTYPE_F32, 3, 3, 33, 40, 0.0F, flags}}) {
    const int32_t n = 300;
    const auto q = random_rows(static_cast<size_t>(n) * setup.heads_q * setup.dim, setup.dtype, &random);
    const auto k = random_rows(static_cast<size_t>(n) * setup.heads_kv * setup.dim, setup.dtype, &random);
    const auto v = random_rows(static_cast<size_t>(n) * setup.heads_kv * setup.dim, setup.dtype, &random);
    for (const std::string &kernel : kernels()) {
      INFO(kernel, " dim ", setup.dim, " heads ", setup.heads_q);
      const Result whole = attend(handle, setup, kernel.c_str(), q, k, v, 0, n);
      const size_t row = static_cast<size_t>(setup.heads_q) * setup.dim;
      int differ = 0;
      for (int32_t i = 0; i < n; i += i < 20 ? 1 : 13) {
        const Result one = attend(handle, setup, kernel.c_str(), q, k, v, i, i + 1);
        differ += same_bits(whole.o, i * row, one.o, 0, row) ? 0 : 1;
        differ +=
            same_bits(whole.lse, static_cast<size_t>(i) * setup.heads_q, one.lse, 0, setup.heads_q) ? 0 : 1;
      }
      // A chunk of prefill that begins anywhere.
      const Result chunk = attend(handle, setup, kernel.c_str(), q, k, v, 137, 260);
      differ += same_bits(whole.o, 137 * row, chunk.o, 0, (260 - 137) * row) ? 0 : 1;
      CHECK(differ == 0);
    }
  }
}

TEST_CASE("any number of threads gives the same bits, split or not") {
  std::mt19937 random(std::random_device{}());
  const Setup setup{FLASHATTN_DTYPE_BF16, 8, 2, 64, -1, 0.0F, 0};
  const int32_t n = 3000;
  const auto q = random_rows(static_cast<size_t>(n) * setup.heads_q * setup.dim, setup.dtype, &random);
  const auto k = random_rows(static_cast<size_t>(n) * setup.heads_kv * setup.dim, setup.dtype, &random);
  const auto v = random_rows(static_cast<size_t>(n) * setup.heads_kv * setup.dim, setup.dtype, &random);
  for (const int32_t first : {n - 1, n - 40}) {
    for (const std::string &kernel : kernels()) {
      const Handle one(1);
      const Result expected = attend(one, setup, kernel.c_str(), q, k, v, first, n);
      for (int32_t threads = 2; threads <= 8; ++threads) {
        INFO(kernel, " threads ", threads, " queries ", n - first);
        const Handle handle(threads);
        const Result result = attend(handle, setup, kernel.c_str(), q, k, v, first, n);
        CHECK(same_bits(result.o, 0, expected.o, 0, expected.o.size()));
        CHECK(same_bits(result.lse, 0, expected.lse, 0, expected.lse.size()));
      }
    }
  }
}

}  // namespace flashattn::cpu::test
