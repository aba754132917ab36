// SPDX-License-Identifier: Apache-2.0
// The public flow over an asynchronous backend: a double with two devices behind a fake driver library.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "src/plan_cache.h"
#include "src/workspace_pool.h"
#include "tests/src/fixture.h"
#include "tests/support/test_backend.h"

namespace flashattn {
namespace {

using testing::CombineFixture;
using testing::cpu_result;
using testing::error_names;
using testing::Fixture;
using testing::TestBackend;

constexpr const char *kGood[] = {FAKE_DRIVER};

// Registers a double for the lifetime of a test.
class Registered {
 public:
  explicit Registered(const char *const (&libraries)[1]) : backend_(libraries, 1) {
    registry_set_test_backend(&backend_);
  }
  ~Registered() { registry_set_test_backend(nullptr); }
  Registered(const Registered &) = delete;
  Registered &operator=(const Registered &) = delete;

 private:
  TestBackend backend_;
};

class Gpu {
 public:
  explicit Gpu(int32_t device = 0) : control(testing::open_control(FAKE_DRIVER)) {
    flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
    options.backend = FLASHATTN_BACKEND_CUDA;
    options.device = device;
    REQUIRE(flashattn_create(&options, &handle) == FLASHATTN_STATUS_OK);
  }
  ~Gpu() {
    flashattn_destroy(handle);
    CHECK(control.fakeBytesInUse() == 0);
    CHECK(control.fakeQueued() == 0);
  }
  Gpu(const Gpu &) = delete;
  Gpu &operator=(const Gpu &) = delete;

  flashattn_handle_t *handle = nullptr;
  fake_control_t control;
};

class Stream {
 public:
  explicit Stream(const fake_control_t &control) : control_(control) { control_.fakeStreamCreate(&stream_); }
  ~Stream() { control_.fakeStreamDestroy(stream_); }
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;
  operator void *() const { return stream_; }  // NOLINT: stands for the stream in calls
  void synchronize() const { control_.fakeStreamSynchronize(stream_); }

 private:
  const fake_control_t &control_;
  void *stream_ = nullptr;
};

bool same_bits(const testing::GuardedFloats &values, const std::vector<float> &expected) {
  return values.all_written() && std::equal(expected.begin(), expected.end(), values.data());
}

// Backend by backend number.
flashattn_backend_info_t describe_backend(int32_t index) {
  flashattn_backend_info_t info{};
  info.struct_size = sizeof info;
  REQUIRE(flashattn_backend_info(index, &info) == FLASHATTN_STATUS_OK);
  return info;
}

TEST_CASE("looking finds both devices and says nothing of the caller's last error") {
  const Registered registered(kGood);
  int32_t count = -1;
  CHECK(flashattn_device_count(FLASHATTN_BACKEND_CUDA, &count) == FLASHATTN_STATUS_OK);
  CHECK(count == 2);
  CHECK(flashattn_device_count(FLASHATTN_BACKEND_AUTO, &count) == FLASHATTN_STATUS_OK);
  CHECK(count == 3);
  flashattn_device_info_t device{};
  device.struct_size = sizeof device;
  REQUIRE(flashattn_device_info(FLASHATTN_BACKEND_CUDA, 1, &device) == FLASHATTN_STATUS_OK);
  CHECK(device.ordinal == 1);
  CHECK(device.backend == FLASHATTN_BACKEND_CUDA);
  CHECK(std::string(device.name) == "Fake GPU 1");
  CHECK(flashattn_device_info(FLASHATTN_BACKEND_CUDA, 2, &device) == FLASHATTN_STATUS_INVALID_DEVICE);
  CHECK(error_names({"ordinal is 2", "2 devices"}));
  const auto info = describe_backend(0);
  CHECK(info.status == FLASHATTN_STATUS_OK);
  CHECK(info.device_count == 2);
  CHECK(info.driver_version == 12020);
  CHECK(std::string(info.reason).empty());
  CHECK(error_names({"ordinal is 2"}));
}

TEST_CASE("AUTO picks the GPU over the CPU") {
  const Registered registered(kGood);
  flashattn_handle_t *handle = nullptr;
  REQUIRE(flashattn_create(nullptr, &handle) == FLASHATTN_STATUS_OK);
  flashattn_handle_info_t info{};
  info.struct_size = sizeof info;
  REQUIRE(flashattn_handle_info(handle, &info) == FLASHATTN_STATUS_OK);
  CHECK(info.backend == FLASHATTN_BACKEND_CUDA);
  CHECK(info.device == 0);
  CHECK(std::string(info.name) == "Fake GPU 0");
  flashattn_destroy(handle);
}

TEST_CASE("AUTO takes the CPU when no GPU opens; a named backend is an error with the reason") {
  struct Row {
    const char *library[1];
    flashattn_status_t status;
    std::vector<std::string> texts;
  };
  const Row rows[] = {
      {{"libno_such_driver.so"}, FLASHATTN_STATUS_NO_DRIVER, {"the fake driver", "libno_such_driver.so"}},
      {{FAKE_DRIVER_OLD}, FLASHATTN_STATUS_DRIVER_TOO_OLD, {"too old", "fakeLaunch", "driver 12.2"}},
      {{FAKE_DRIVER_NO_DEVICE}, FLASHATTN_STATUS_NO_DEVICE, {"no device"}},
  };
  for (const Row &row : rows) {
    CAPTURE(row.library[0]);
    const Registered registered(row.library);
    flashattn_handle_t *handle = nullptr;
    REQUIRE(flashattn_create(nullptr, &handle) == FLASHATTN_STATUS_OK);
    flashattn_handle_info_t info{};
    info.struct_size = sizeof info;
    REQUIRE(flashattn_handle_info(handle, &info) == FLASHATTN_STATUS_OK);
    CHECK(info.backend == FLASHATTN_BACKEND_CPU);
    flashattn_destroy(handle);

    flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
    options.backend = FLASHATTN_BACKEND_CUDA;
    CHECK(flashattn_create(&options, &handle) == row.status);
    CHECK(handle == nullptr);
    CHECK(error_names(row.texts));

    const auto backend = describe_backend(0);
    CHECK(backend.status == row.status);
    CHECK(std::string(backend.reason).find(row.texts[0]) != std::string::npos);
    int32_t count = -1;
    CHECK(flashattn_device_count(FLASHATTN_BACKEND_CUDA, &count) == row.status);
    CHECK(count == 0);
  }
}

TEST_CASE("a device ordinal beyond the last is INVALID_DEVICE, also for AUTO") {
  const Registered registered(kGood);
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.device = 2;
  flashattn_handle_t *handle = nullptr;
  for (const int32_t backend : {FLASHATTN_BACKEND_CUDA, FLASHATTN_BACKEND_AUTO}) {
    options.backend = backend;
    CHECK(flashattn_create(&options, &handle) == FLASHATTN_STATUS_INVALID_DEVICE);
    CHECK(handle == nullptr);
    CHECK(error_names({"device is 2", "2 devices"}));
  }
}

TEST_CASE("a handle on the second device computes there") {
  const Registered registered(kGood);
  Fixture fixture;
  const std::vector<float> expected = cpu_result(fixture);
  const Gpu gpu(1);
  const Stream stream(gpu.control);
  const int before[] = {gpu.control.fakeLaunchCount(0), gpu.control.fakeLaunchCount(1)};
  REQUIRE(flashattn_attention(gpu.handle, &fixture.problem, &fixture.call, stream) == FLASHATTN_STATUS_OK);
  stream.synchronize();
  CHECK(same_bits(fixture.o, expected));
  CHECK(gpu.control.fakeLaunchCount(0) == before[0]);
  CHECK(gpu.control.fakeLaunchCount(1) == before[1] + 2);  // workspace_init and forward
}

TEST_CASE("plan, workspace and forward run in the order of their stream") {
  const Registered registered(kGood);
  Fixture fixture;
  const std::vector<float> expected = cpu_result(fixture);
  const Gpu gpu;
  const Stream stream(gpu.control);
  flashattn_plan_t *plan = nullptr;
  REQUIRE(flashattn_plan_create(gpu.handle, &fixture.problem, &plan) == FLASHATTN_STATUS_OK);
  flashattn_plan_info_t info{};
  info.struct_size = sizeof info;
  REQUIRE(flashattn_plan_info(plan, &info) == FLASHATTN_STATUS_OK);
  CHECK(info.backend == FLASHATTN_BACKEND_CUDA);
  REQUIRE(info.workspace_size > 0);
  CHECK(info.materialized_bytes == 2U * 2 * 4 * 3 * 5 * 4);
  alignas(64) char workspace[256];
  REQUIRE(info.workspace_size <= sizeof workspace);
  CHECK(flashattn_workspace_init(plan, workspace, sizeof workspace, stream) == FLASHATTN_STATUS_OK);
  CHECK(flashattn_forward(plan, &fixture.call, workspace, sizeof workspace, stream) == FLASHATTN_STATUS_OK);
  gpu.control.fakeStreamSynchronize(nullptr);
  CHECK(fixture.o.untouched());  // nothing went to the default stream
  CHECK(gpu.control.fakeQueued() == 2);
  stream.synchronize();
  CHECK(same_bits(fixture.o, expected));
  CHECK(fixture.lse.all_written());

  // Too small, missing or misaligned workspaces are refused before anything is queued.
  CHECK(flashattn_forward(plan, &fixture.call, nullptr, 0, stream) == FLASHATTN_STATUS_NULL_POINTER);
  CHECK(error_names({"workspace is NULL", std::to_string(info.workspace_size)}));
  CHECK(flashattn_forward(plan, &fixture.call, workspace, info.workspace_size - 1, stream) ==
        FLASHATTN_STATUS_WORKSPACE);
  CHECK(error_names({"workspace_size is " + std::to_string(info.workspace_size - 1)}));
  CHECK(flashattn_forward(plan, &fixture.call, workspace + 4, 128, stream) == FLASHATTN_STATUS_WORKSPACE);
  CHECK(error_names({"workspace is", "aligned to 64"}));
  CHECK(flashattn_workspace_init(plan, workspace + 4, 128, stream) == FLASHATTN_STATUS_WORKSPACE);
  CHECK(gpu.control.fakeQueued() == 0);
  flashattn_plan_destroy(plan);
}

TEST_CASE("attention keeps a workspace for each stream and initialises it when the plan changes") {
  const Registered registered(kGood);
  Fixture fixture;
  const Gpu gpu;
  const Stream first(gpu.control);
  const Stream second(gpu.control);
  const auto launches = [&] { return gpu.control.fakeLaunchCount(0); };
  const auto attend = [&](void *stream) {
    const int before = launches();
    REQUIRE(flashattn_attention(gpu.handle, &fixture.problem, &fixture.call, stream) == FLASHATTN_STATUS_OK);
    return launches() - before;
  };
  CHECK(attend(first) == 2);
  const size_t one = gpu.control.fakeBytesInUse();
  CHECK(one > 0);
  CHECK(attend(first) == 1);
  CHECK(gpu.control.fakeBytesInUse() == one);
  CHECK(attend(second) == 2);
  CHECK(gpu.control.fakeBytesInUse() == 2 * one);
  fixture.problem.causal = 1;  // another plan
  CHECK(attend(first) == 2);
  CHECK(attend(first) == 1);
  fixture.problem.causal = 0;
  CHECK(attend(first) == 2);
  first.synchronize();
  second.synchronize();
  CHECK(fixture.o.all_written());
}

TEST_CASE("workspaces and cached plans are bounded however many streams and problems come") {
  const Registered registered(kGood);
  Fixture fixture;
  const std::vector<float> expected = cpu_result(fixture);
  const Gpu gpu;
  std::vector<std::unique_ptr<Stream>> streams;
  size_t one = 0;
  for (int i = 0; i < 3 * WorkspacePool::kCapacity; ++i) {
    streams.push_back(std::make_unique<Stream>(gpu.control));
    REQUIRE(flashattn_attention(gpu.handle, &fixture.problem, &fixture.call, *streams.back()) ==
            FLASHATTN_STATUS_OK);
    if (i == 0) one = gpu.control.fakeBytesInUse();
    CHECK(gpu.control.fakeBytesInUse() <= WorkspacePool::kCapacity * one);
  }
  CHECK(gpu.control.fakeBytesInUse() == WorkspacePool::kCapacity * one);
  // More plans than the cache holds, evicted while their work is queued.
  for (int i = 0; i < 3 * PlanCache::kCapacity; ++i) {
    fixture.problem.max_batch = 2 + i;
    REQUIRE(flashattn_attention(gpu.handle, &fixture.problem, &fixture.call, *streams[0]) ==
            FLASHATTN_STATUS_OK);
  }
  streams.clear();
  CHECK(same_bits(fixture.o, expected));
}

TEST_CASE("attention refuses a captured stream when it would have to plan or to find a workspace") {
  const Registered registered(kGood);
  Fixture fixture;
  const Gpu gpu;
  const Stream stream(gpu.control);
  gpu.control.fakeStreamSetCapturing(stream, 1);
  CHECK(flashattn_attention(gpu.handle, &fixture.problem, &fixture.call, stream) ==
        FLASHATTN_STATUS_CAPTURING);
  CHECK(error_names({"being captured", "no cached plan"}));
  gpu.control.fakeStreamSetCapturing(stream, 0);
  REQUIRE(flashattn_attention(gpu.handle, &fixture.problem, &fixture.call, stream) == FLASHATTN_STATUS_OK);
  stream.synchronize();
  fixture.o.poison();
  gpu.control.fakeStreamSetCapturing(stream, 1);
  CHECK(flashattn_attention(gpu.handle, &fixture.problem, &fixture.call, stream) ==
        FLASHATTN_STATUS_CAPTURING);
  CHECK(error_names({"being captured", "needs workspace"}));
  CHECK(gpu.control.fakeQueued() == 0);
  CHECK(fixture.o.untouched());
}

TEST_CASE("combine is queued on its stream") {
  const Registered registered(kGood);
  CombineFixture fixture;
  const Gpu gpu;
  const Stream stream(gpu.control);
  REQUIRE(flashattn_combine(gpu.handle, &fixture.args, stream) == FLASHATTN_STATUS_OK);
  CHECK(fixture.o.untouched());
  stream.synchronize();
  CHECK(fixture.o.all_written());
  CHECK(fixture.lse.all_written());
}

TEST_CASE("a driver error carries the driver's code until the next error") {
  const Registered registered(kGood);
  Fixture fixture;
  const Gpu gpu;
  const Stream stream(gpu.control);
  REQUIRE(flashattn_attention(gpu.handle, &fixture.problem, &fixture.call, stream) == FLASHATTN_STATUS_OK);
  stream.synchronize();
  gpu.control.fakeFailNext(719);
  CHECK(flashattn_attention(gpu.handle, &fixture.problem, &fixture.call, stream) ==
        FLASHATTN_STATUS_DRIVER_ERROR);
  CHECK(flashattn_last_driver_error() == 719);
  CHECK(error_names({"fakeLaunch", "719"}));
  // What the failed call left in the workspace is unknown: it is initialised again.
  const int before = gpu.control.fakeLaunchCount(0);
  REQUIRE(flashattn_attention(gpu.handle, &fixture.problem, &fixture.call, stream) == FLASHATTN_STATUS_OK);
  CHECK(gpu.control.fakeLaunchCount(0) == before + 2);
  CHECK(flashattn_last_driver_error() == 719);
  CHECK(flashattn_create(nullptr, nullptr) == FLASHATTN_STATUS_NULL_POINTER);
  CHECK(flashattn_last_driver_error() == 0);
}

TEST_CASE("device memory that runs out is OUT_OF_MEMORY and leaves the handle usable") {
  const Registered registered(kGood);
  Fixture fixture;
  const Gpu gpu;
  const Stream stream(gpu.control);
  gpu.control.fakeFailNext(FAKE_OUT_OF_MEMORY);
  CHECK(flashattn_attention(gpu.handle, &fixture.problem, &fixture.call, stream) ==
        FLASHATTN_STATUS_OUT_OF_MEMORY);
  CHECK(flashattn_last_driver_error() == FAKE_OUT_OF_MEMORY);
  CHECK(gpu.control.fakeQueued() == 0);
  CHECK(flashattn_attention(gpu.handle, &fixture.problem, &fixture.call, stream) == FLASHATTN_STATUS_OK);
}

// The exit code of body() in a forked child.
template <typename Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_CASE("a forked child gets FORKED from the parent's GPU handle and can open its own") {
  const Registered registered(kGood);
  Fixture fixture;
  CombineFixture combine;
  const Gpu gpu;
  flashattn_plan_t *plan = nullptr;
  REQUIRE(flashattn_plan_create(gpu.handle, &fixture.problem, &plan) == FLASHATTN_STATUS_OK);
  const int failed = in_child([&] {
    alignas(64) char workspace[256];
    flashattn_plan_t *other = nullptr;
    const flashattn_status_t statuses[] = {
        flashattn_plan_create(gpu.handle, &fixture.problem, &other),
        flashattn_attention(gpu.handle, &fixture.problem, &fixture.call, nullptr),
        flashattn_workspace_init(plan, workspace, sizeof workspace, nullptr),
        flashattn_forward(plan, &fixture.call, workspace, sizeof workspace, nullptr),
        flashattn_combine(gpu.handle, &combine.args, nullptr),
    };
    int number = 0;
    for (const flashattn_status_t status : statuses) {
      ++number;
      if (status != FLASHATTN_STATUS_FORKED) return number;
    }
    if (!error_names({"fork", "cuda"})) return 20;
    const int launches = gpu.control.fakeLaunchCount(0);
    flashattn_plan_destroy(plan);
    flashattn_destroy(gpu.handle);
    flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
    options.backend = FLASHATTN_BACKEND_CUDA;
    flashattn_handle_t *own = nullptr;
    if (flashattn_create(&options, &own) != FLASHATTN_STATUS_OK) return 21;
    if (flashattn_attention(own, &fixture.problem, &fixture.call, nullptr) != FLASHATTN_STATUS_OK) return 22;
    if (gpu.control.fakeLaunchCount(0) != launches + 2) return 23;
    gpu.control.fakeStreamSynchronize(nullptr);
    flashattn_destroy(own);
    return fixture.o.all_written() ? 0 : 24;
  });
  CHECK(failed == 0);
  // The parent is not disturbed.
  CHECK(flashattn_attention(gpu.handle, &fixture.problem, &fixture.call, nullptr) == FLASHATTN_STATUS_OK);
  flashattn_plan_destroy(plan);
}

}  // namespace
}  // namespace flashattn
