// SPDX-License-Identifier: Apache-2.0
// One handle, many threads. Run under ThreadSanitizer too.
#include <doctest/doctest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backends/registry.h"
#include "tests/src/fixture.h"
#include "tests/support/test_backend.h"

namespace flashattn::testing {
namespace {

constexpr int kThreads = 64;
constexpr int kRounds = 6;

template <typename Body>
void on_threads(const Body &body) {
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread &thread : threads) thread.join();
}

bool right(const Fixture &fixture, const std::vector<float> &expected) {
  return fixture.o.all_written() && std::equal(expected.begin(), expected.end(), fixture.o.data());
}

TEST_CASE("64 threads on one CPU handle: one-call attention, plans of their own, info, errors") {
  const CpuHandle handle(4);
  std::vector<std::unique_ptr<Fixture>> fixtures;
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < kThreads; ++i) {
    fixtures.push_back(std::make_unique<Fixture>());
    // More problems than threads that share one, fewer than the plan cache holds, and a few beyond.
    fixtures.back()->problem.max_batch = 2 + i % 40;
    fixtures.back()->problem.causal = i % 2;
    expected.push_back(cpu_result(*fixtures.back()));
  }
  std::atomic<int> failures{0};
  on_threads([&](int i) {
    Fixture &fixture = *fixtures[static_cast<size_t>(i)];
    const auto expect = [&](bool condition) { failures += condition ? 0 : 1; };
    for (int round = 0; round < kRounds; ++round) {
      fixture.o.poison();
      expect(flashattn_attention(handle, &fixture.problem, &fixture.call, nullptr) == FLASHATTN_STATUS_OK);
      expect(right(fixture, expected[static_cast<size_t>(i)]));
      flashattn_plan_t *plan = nullptr;
      expect(flashattn_plan_create(handle, &fixture.problem, &plan) == FLASHATTN_STATUS_OK);
      flashattn_handle_info_t info{};
      info.struct_size = sizeof info;
      expect(flashattn_handle_info(handle, &info) == FLASHATTN_STATUS_OK);
      flashattn_plan_destroy(plan);
      flashattn_problem_t wrong = fixture.problem;
      wrong.head_dim = -1 - i;
      expect(flashattn_plan_create(handle, &wrong, &plan) == FLASHATTN_STATUS_INVALID_ARGUMENT);
      expect(error_names({"head_dim is " + std::to_string(-1 - i) + ";"}));
    }
  });
  CHECK(failures == 0);
}

TEST_CASE("64 threads run one plan, each with a workspace of its own") {
  const CpuHandle handle(4);
  const Fixture shape;
  flashattn_plan_t *plan = nullptr;
  REQUIRE(flashattn_plan_create(handle, &shape.problem, &plan) == FLASHATTN_STATUS_OK);
  flashattn_plan_info_t info{};
  info.struct_size = sizeof info;
  REQUIRE(flashattn_plan_info(plan, &info) == FLASHATTN_STATUS_OK);
  std::vector<std::unique_ptr<Fixture>> fixtures;
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < kThreads; ++i) {
    fixtures.push_back(std::make_unique<Fixture>());
    expected.push_back(cpu_result(*fixtures.back()));
  }
  std::atomic<int> failures{0};
  on_threads([&](int i) {
    Fixture &fixture = *fixtures[static_cast<size_t>(i)];
    std::vector<char> workspace(info.workspace_size + info.workspace_alignment);
    void *aligned = workspace.data();
    size_t room = workspace.size();
    std::align(info.workspace_alignment, info.workspace_size, aligned, room);
    flashattn_status_t status = flashattn_workspace_init(plan, aligned, room, nullptr);
    for (int round = 0; round < kRounds && status == FLASHATTN_STATUS_OK; ++round) {
      fixture.o.poison();
      status = flashattn_forward(plan, &fixture.call, aligned, room, nullptr);
      if (!right(fixture, expected[static_cast<size_t>(i)])) ++failures;
    }
    if (status != FLASHATTN_STATUS_OK) ++failures;
  });
  CHECK(failures == 0);
  flashattn_plan_destroy(plan);
}

// The fixture's calls are too small to wake a pool; these are cut into four splits for four workers.
TEST_CASE("64 threads on one CPU handle with work for its pool") {
  constexpr int kQueries = 8;
  constexpr int kKeys = 1024;
  constexpr int kHeads = 4;
  constexpr int kDim = 64;
  std::mt19937 random(std::random_device{}());
  std::normal_distribution<float> normal(0.25F, 1.0F);
  const auto draw = [&](int rows) {
    std::vector<float> values(static_cast<size_t>(rows) * kHeads * kDim);
    std::generate(values.begin(), values.end(), [&] { return normal(random); });
    return values;
  };
  std::vector<float> q = draw(kQueries);
  std::vector<float> k = draw(kKeys);
  std::vector<float> v = draw(kKeys);
  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  problem.dtype_q = problem.dtype_kv = FLASHATTN_DTYPE_F32;
  problem.num_heads_q = problem.num_heads_kv = kHeads;
  problem.head_dim = kDim;
  problem.max_batch = 1;
  problem.max_seqlen_q = kQueries;
  problem.max_seqlen_kv = kKeys;
  problem.num_splits = 4;
  flashattn_call_t shape = FLASHATTN_CALL_INIT;
  shape.batch = 1;
  shape.seqlen_q = kQueries;
  shape.seqlen_kv = kKeys;
  REQUIRE(flashattn_call_contiguous(&problem, &shape) == FLASHATTN_STATUS_OK);
  shape.q.data = q.data();
  shape.k.data = k.data();
  shape.v.data = v.data();
  const auto attend = [&](flashattn_handle_t *handle, GuardedFloats *o) {
    flashattn_call_t call = shape;
    call.o.data = o->data();
    return flashattn_attention(handle, &problem, &call, nullptr) == FLASHATTN_STATUS_OK && o->all_written();
  };
  GuardedFloats expected(q.size());
  REQUIRE(attend(CpuHandle(1), &expected));
  const CpuHandle handle(4);
  std::atomic<int> failures{0};
  on_threads([&](int /*i*/) {
    GuardedFloats o(q.size());
    if (!attend(handle, &o) || !std::equal(o.data(), o.data() + o.size(), expected.data())) ++failures;
  });
  CHECK(failures == 0);
}

TEST_CASE("64 threads open, use and close handles of their own") {
  Fixture shape;
  const std::vector<float> expected = cpu_result(shape);
  std::atomic<int> failures{0};
  on_threads([&](int /*i*/) {
    flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
    options.backend = FLASHATTN_BACKEND_CPU;
    options.num_threads = 2;
    flashattn_handle_t *handle = nullptr;
    if (flashattn_create(&options, &handle) != FLASHATTN_STATUS_OK) {
      ++failures;
      return;
    }
    GuardedFloats o(shape.o.size());
    flashattn_call_t call = shape.call;
    call.o.data = o.data();
    call.lse.data = nullptr;
    if (flashattn_attention(handle, &shape.problem, &call, nullptr) != FLASHATTN_STATUS_OK) ++failures;
    if (!o.all_written() || !std::equal(expected.begin(), expected.end(), o.data())) ++failures;
    flashattn_destroy(handle);
  });
  CHECK(failures == 0);
}

TEST_CASE("a thread cancelled inside a call is cancelled after it") {
  struct Call {
    Fixture fixture;
    std::atomic<bool> returned{false};
  } call;
  const auto body = [](void *argument) -> void * {
    auto *shared = static_cast<Call *>(argument);
    flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
    options.backend = FLASHATTN_BACKEND_CPU;
    options.num_threads = 2;
    options.log = [](void * /*user*/, int32_t /*level*/, const char * /*message*/) { pthread_testcancel(); };
    int before = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_cancel(pthread_self());
    flashattn_handle_t *handle = nullptr;
    const auto enabled = [](auto function) {
      int off = 0;
      pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &off);
      const auto result = function();
      pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &off);
      return result;
    };
    const flashattn_status_t created = enabled([&] { return flashattn_create(&options, &handle); });
    const flashattn_status_t attended = enabled([&] {
      return flashattn_attention(handle, &shared->fixture.problem, &shared->fixture.call, nullptr);
    });
    flashattn_destroy(handle);
    shared->returned = created == FLASHATTN_STATUS_OK && attended == FLASHATTN_STATUS_OK;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    pthread_testcancel();
    return nullptr;
  };
  pthread_t thread;
  REQUIRE(pthread_create(&thread, nullptr, body, &call) == 0);
  void *result = nullptr;
  REQUIRE(pthread_join(thread, &result) == 0);
  CHECK((result == PTHREAD_CANCELED));
  CHECK(call.returned);
  CHECK(call.fixture.o.all_written());
}

TEST_CASE("64 threads over 20 streams of an asynchronous device share its 16 workspaces") {
  constexpr const char *kLibraries[] = {FAKE_DRIVER};
  const TestBackend backend(kLibraries, 1);
  registry_set_test_backend(&backend);
  const fake_control_t control = open_control(FAKE_DRIVER);
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CUDA;
  flashattn_handle_t *handle = nullptr;
  REQUIRE(flashattn_create(&options, &handle) == FLASHATTN_STATUS_OK);
  constexpr size_t kStreams = 20;
  void *streams[kStreams];
  for (void *&stream : streams) control.fakeStreamCreate(&stream);
  std::vector<std::unique_ptr<Fixture>> fixtures;
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < kThreads; ++i) {
    fixtures.push_back(std::make_unique<Fixture>());
    fixtures.back()->problem.causal = i % 2;
    expected.push_back(cpu_result(*fixtures.back()));
  }
  std::atomic<int> failures{0};
  on_threads([&](int i) {
    Fixture &fixture = *fixtures[static_cast<size_t>(i)];
    void *stream = streams[static_cast<size_t>(i) % kStreams];
    if (flashattn_attention(handle, &fixture.problem, &fixture.call, stream) != FLASHATTN_STATUS_OK)
      ++failures;
  });
  for (void *stream : streams) control.fakeStreamDestroy(stream);
  for (size_t i = 0; i < fixtures.size(); ++i) {
    if (!right(*fixtures[i], expected[i])) ++failures;
  }
  CHECK(failures == 0);
  flashattn_destroy(handle);
  registry_set_test_backend(nullptr);
}

}  // namespace
}  // namespace flashattn::testing
