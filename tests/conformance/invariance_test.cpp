// SPDX-License-Identifier: Apache-2.0
// What a row's bits must not depend on.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>

#include "tests/conformance/check.h"

namespace flashattn::test {
namespace {

// O (dim_v values) and LSE of one row.
std::vector<float> row_of(const Case &c, const PreparedCall &call, int32_t b, int32_t h, int32_t i) {
  std::vector<float> values;
  for (int32_t d = 0; d < c.dim_v; ++d) values.push_back(call.o_at(b, h, i, d));
  values.push_back(call.lse_at(b, h, i));
  return values;
}

// The first n rows of a tensor's sequence 0, as sequence 0 of a tensor laid out for other sizes.
void copy_sequence(const Rows &from, int64_t from_batch, int64_t from_first, int64_t count, int64_t heads,
                   Rows *to, int64_t to_batch) {
  for (int64_t s = 0; s < count; ++s) {
    for (int64_t h = 0; h < heads; ++h) {
      std::copy_n(from.row(from_batch, from_first + s, h), from.dim, to->row(to_batch, s, h));
    }
  }
}

Case invariant_case(const char *name, int32_t dtype_kv, int32_t dim) {
  Case c;
  c.name = name;
  c.flags = FLASHATTN_FLAG_BATCH_INVARIANT;
  c.dtype_q = FLASHATTN_DTYPE_F32;
  c.dtype_kv = dtype_kv;
  c.heads_q = 8;
  c.heads_kv = 2;
  c.dim = c.dim_v = dim;
  c.causal = 1;
  return c;
}

}  // namespace

TEST_CASE("invariance: any number of threads gives the same bits") {
  std::vector<Case> cases = random_cases(quick() ? 10 : 60);
  for (size_t n = 0; n < cases.size(); ++n) {
    Case &c = cases[n];
    c.name = "threads #" + std::to_string(n);
    for (const Kernel &kernel : Session::instance().kernels()) {
      if (kernel.backend != FLASHATTN_BACKEND_CPU) continue;
      PreparedCall call(c, make_contents(c, rng_for(c.name)), Session::instance().device(kernel.backend));
      std::vector<uint8_t> bits;
      for (const int32_t threads : {1, 2, 3, 8}) {
        c.threads = threads;
        if (!run_on(kernel, c, call, nullptr)) break;
        if (bits.empty()) bits = call.snapshot();
        INFO(kernel.label(), " on ", describe(c), " seed ", run_seed());
        CHECK((call.snapshot() == bits));
      }
    }
  }
}

TEST_CASE("invariance: the caller's parallel_for, in any order, gives the pool's bits") {
  struct Caller {
    static void FLASHATTN_CALL backwards(void * /*user*/, int32_t count, flashattn_task_fn task,
                                         void *context) {
      for (int32_t n = count - 1; n >= 0; --n) task(context, n);
    }
    static void FLASHATTN_CALL threads(void *user, int32_t count, flashattn_task_fn task, void *context) {
      static_cast<std::atomic<int64_t> *>(user)->fetch_add(1);
      std::vector<std::thread> workers;
      for (int32_t n = 0; n < count; ++n) workers.emplace_back(task, context, n);
      for (std::thread &worker : workers) worker.join();
    }
  };
  std::atomic<int64_t> calls{0};
  std::vector<Case> cases = random_cases(quick() ? 4 : 20);
  Case big;
  big.n_q = {64};
  big.n_k = {256};
  big.heads_q = 8;
  cases.push_back(big);
  for (const flashattn_parallel_for_fn order : {&Caller::backwards, &Caller::threads}) {
    flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
    options.backend = FLASHATTN_BACKEND_CPU;
    options.num_threads = 4;
    options.parallel_for = order;
    options.parallel_for_user = &calls;
    flashattn_handle_t *handle = nullptr;
    REQUIRE(flashattn_create(&options, &handle) == FLASHATTN_STATUS_OK);
    for (size_t n = 0; n < cases.size(); ++n) {
      Case &c = cases[n];
      c.name = "parallel_for #" + std::to_string(n);
      for (const Kernel &kernel : Session::instance().kernels()) {
        if (kernel.backend != FLASHATTN_BACKEND_CPU) continue;
        PreparedCall call(c, make_contents(c, rng_for(c.name)), Session::instance().device(kernel.backend));
        if (!run_on(kernel, c, call, nullptr)) continue;
        const std::vector<uint8_t> bits = call.snapshot();
        call.reset_outputs();
        REQUIRE(flashattn_attention(handle, &call.problem, &call.call, nullptr) == FLASHATTN_STATUS_OK);
        CHECK(call.fetch().empty());
        INFO(kernel.label(), " on ", describe(c), " seed ", run_seed());
        CHECK((call.snapshot() == bits));
      }
    }
    flashattn_destroy(handle);
  }
  const std::vector<Kernel> &kernels = Session::instance().kernels();
  if (std::any_of(kernels.begin(), kernels.end(),
                  [](const Kernel &kernel) { return kernel.backend == FLASHATTN_BACKEND_CPU; })) {
    CHECK(calls > 0);
  }
}

TEST_CASE("invariance: with the flag a row's bits do not depend on the batch or its place in it") {
  for (const int32_t dtype : {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_BF16}) {
    for (const int32_t n_q : {1, 5, 40}) {
      Case alone = invariant_case("batch", dtype, 64);
      alone.n_q = {n_q};
      alone.n_k = {700};
      Case crowd = alone;
      crowd.n_q = {n_q, n_q, n_q, n_q, n_q};
      crowd.n_k = {700, 700, 700, 700, 700};
      crowd.slack = 9;
      crowd.threads = 3;
      const Contents many = make_contents(crowd, rng_for(crowd.name));
      Contents one = make_contents(alone, rng_for(alone.name));
      copy_sequence(many.q, 3, 0, n_q, 8, &one.q, 0);
      copy_sequence(many.k, 3, 0, 700, 2, &one.k, 0);
      copy_sequence(many.v, 3, 0, 700, 2, &one.v, 0);
      for (const Kernel &kernel : Session::instance().kernels()) {
        Device &device = Session::instance().device(kernel.backend);
        PreparedCall call_alone(alone, one, device);
        PreparedCall call_crowd(crowd, many, device);
        if (!run_on(kernel, alone, call_alone, nullptr) || !run_on(kernel, crowd, call_crowd, nullptr))
          continue;
        INFO(kernel.label(), " n_q ", n_q, " dtype ", dtype);
        for (int32_t h = 0; h < 8; ++h) {
          for (int32_t i = 0; i < n_q; ++i) {
            CHECK((row_of(alone, call_alone, 0, h, i) == row_of(crowd, call_crowd, 3, h, i)));
          }
        }
      }
    }
  }
}

TEST_CASE("invariance: with the flag prefill, decode and a longer cache give a row the same bits") {
  for (const int32_t dtype : {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16}) {
    for (const int32_t dim : {64, 40}) {
      // Row 299 of the prefill, alone over 300 keys, and in a prefill of 450.
      Case prefill = invariant_case("growth", dtype, dim);
      prefill.n_q = prefill.n_k = {300};
      Case decode = prefill;
      decode.n_q = {1};
      Case chunk = prefill;
      chunk.n_q = {7};
      Case longer = prefill;
      longer.n_q = longer.n_k = {450};
      const Contents all = make_contents(longer, rng_for(longer.name));
      const auto part = [&all](const Case &c) {
        Contents contents = make_contents(c, rng_for(c.name));
        copy_sequence(all.q, 0, c.n_k[0] - c.n_q[0], c.n_q[0], 8, &contents.q, 0);
        copy_sequence(all.k, 0, 0, c.n_k[0], 2, &contents.k, 0);
        copy_sequence(all.v, 0, 0, c.n_k[0], 2, &contents.v, 0);
        return contents;
      };
      for (const Kernel &kernel : Session::instance().kernels()) {
        Device &device = Session::instance().device(kernel.backend);
        PreparedCall call_longer(longer, all, device);
        if (!run_on(kernel, longer, call_longer, nullptr)) continue;
        for (const Case &c : {prefill, decode, chunk}) {
          PreparedCall call(c, part(c), device);
          if (!run_on(kernel, c, call, nullptr)) continue;
          INFO(kernel.label(), " ", describe(c));
          for (int32_t h = 0; h < 8; ++h) {
            CHECK((row_of(c, call, 0, h, c.n_q[0] - 1) == row_of(longer, call_longer, 0, h, 299)));
          }
        }
      }
    }
  }
}

TEST_CASE("invariance: one plan and one workspace serve calls of any size") {
  struct Size {
    int32_t batch, n_q, n_k;
  };
  const Size sizes[] = {{2, 3, 5},   {3, 4, 900}, {1, 1, 64},  {3, 4, 0},
                        {2, 1, 899}, {0, 1, 1},   {3, 2, 300}, {3, 4, 900}};
  for (const int32_t layout : {FLASHATTN_LAYOUT_DENSE, FLASHATTN_LAYOUT_RAGGED, FLASHATTN_LAYOUT_PAGED}) {
    for (const int32_t splits : {0, 4}) {
      const auto case_of = [&](const Size &size) {
        Case c;
        c.name = "one plan";
        c.heads_q = 4;
        c.layout_q = layout == FLASHATTN_LAYOUT_RAGGED ? layout : FLASHATTN_LAYOUT_DENSE;
        c.layout_kv = layout;
        c.n_q.assign(size.batch, size.n_q);
        c.n_k.assign(size.batch, size.n_k);
        c.num_splits = splits;
        c.causal = 1;
        return c;
      };
      for (const Kernel &kernel : Session::instance().kernels()) {
        Device &device = Session::instance().device(kernel.backend);
        const Case largest = case_of({3, 4, 900});
        PreparedCall maxima(largest, make_contents(largest, rng_for(largest.name)), device);
        std::snprintf(maxima.problem.kernel, sizeof(maxima.problem.kernel), "%s", kernel.name.c_str());
        flashattn_plan_t *plan = nullptr;
        if (flashattn_plan_create(Session::instance().handle(kernel.backend, 2), &maxima.problem, &plan) ==
            FLASHATTN_STATUS_UNSUPPORTED) {
          CHECK(!kernel.complete);
          continue;
        }
        REQUIRE(plan != nullptr);
        flashattn_plan_info_t info{};
        info.struct_size = sizeof(info);
        REQUIRE(flashattn_plan_info(plan, &info) == FLASHATTN_STATUS_OK);
        GuardedBuffer workspace(device, info.workspace_size);
        workspace.upload();
        void *data = workspace.device_data();
        REQUIRE(flashattn_workspace_init(plan, data, workspace.size(), device.stream()) ==
                FLASHATTN_STATUS_OK);
        for (const Size &size : sizes) {
          const Case c = case_of(size);
          const Contents contents = make_contents(c, rng_for(c.name));
          PreparedCall call(c, contents, device);
          INFO(kernel.label(), " on ", describe(c), " seed ", run_seed());
          REQUIRE(flashattn_forward(plan, &call.call, data, workspace.size(), device.stream()) ==
                  FLASHATTN_STATUS_OK);
          CHECK(call.fetch() == "");
          double share = 0;
          CHECK(call.compare(oracle(c, contents), &share) == "");
        }
        workspace.download();
        CHECK(workspace.unexpected_write(std::vector<uint8_t>(workspace.size(), 1), 1) == "");
        flashattn_plan_destroy(plan);
      }
    }
  }
}

}  // namespace flashattn::test
