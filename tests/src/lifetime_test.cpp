// SPDX-License-Identifier: Apache-2.0
// Handles and plans: any order of destruction, use after it, fork with a CPU handle.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/src/fixture.h"

namespace flashattn::testing {
namespace {

constexpr flashattn_status_t kOk = FLASHATTN_STATUS_OK;

flashattn_handle_t *open_cpu(int32_t num_threads) {
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CPU;
  options.num_threads = num_threads;
  flashattn_handle_t *handle = nullptr;
  REQUIRE(flashattn_create(&options, &handle) == kOk);
  return handle;
}

flashattn_status_t run(const flashattn_plan_t *plan, const flashattn_call_t &call) {
  flashattn_plan_info_t info{};
  info.struct_size = sizeof info;
  if (const flashattn_status_t status = flashattn_plan_info(plan, &info); status != kOk) return status;
  std::vector<char> workspace(info.workspace_size + info.workspace_alignment);
  void *aligned = workspace.data();
  size_t room = workspace.size();
  std::align(info.workspace_alignment, info.workspace_size, aligned, room);
  if (const flashattn_status_t status = flashattn_workspace_init(plan, aligned, room, nullptr);
      status != kOk) {
    return status;
  }
  return flashattn_forward(plan, &call, aligned, room, nullptr);
}

TEST_CASE("a plan keeps its handle alive: it runs after the handle's destruction") {
  for (const int32_t threads : {1, 4}) {
    Fixture fixture;
    flashattn_handle_t *handle = open_cpu(threads);
    flashattn_plan_t *first = nullptr;
    flashattn_plan_t *second = nullptr;
    REQUIRE(flashattn_plan_create(handle, &fixture.problem, &first) == kOk);
    fixture.problem.causal = 1;
    REQUIRE(flashattn_plan_create(handle, &fixture.problem, &second) == kOk);
    flashattn_plan_destroy(first);
    flashattn_destroy(handle);
    CHECK(run(second, fixture.call) == kOk);
    CHECK(fixture.o.all_written());

    // The handle's memory is there as long as the plan is, but the handle is closed.
    CHECK(flashattn_attention(handle, &fixture.problem, &fixture.call, nullptr) ==
          FLASHATTN_STATUS_INVALID_ARGUMENT);
    CHECK(error_names({"handle is 0x", "not an open handle"}));
    flashattn_plan_t *third = nullptr;
    CHECK(flashattn_plan_create(handle, &fixture.problem, &third) == FLASHATTN_STATUS_INVALID_ARGUMENT);
    CHECK(third == nullptr);
    flashattn_destroy(handle);  // a second destroy takes no reference that is not there
    CHECK(run(second, fixture.call) == kOk);
    flashattn_plan_destroy(second);
  }
}

TEST_CASE("memory that was never a handle or a plan is refused") {
  alignas(64) char memory[4096] = {};
  auto *handle = reinterpret_cast<flashattn_handle_t *>(memory);
  auto *plan = reinterpret_cast<flashattn_plan_t *>(memory);
  Fixture fixture;
  CHECK(flashattn_attention(handle, &fixture.problem, &fixture.call, nullptr) ==
        FLASHATTN_STATUS_INVALID_ARGUMENT);
  CHECK(flashattn_forward(plan, &fixture.call, nullptr, 0, nullptr) == FLASHATTN_STATUS_INVALID_ARGUMENT);
  CHECK(error_names({"plan is 0x", "not a live plan"}));
  flashattn_destroy(handle);
  flashattn_plan_destroy(plan);
}

TEST_CASE("reasons of a plan by index") {
  const CpuHandle handle;
  const Fixture fixture;
  flashattn_plan_t *plan = nullptr;
  REQUIRE(flashattn_plan_create(handle, &fixture.problem, &plan) == kOk);
  flashattn_plan_info_t info{};
  info.struct_size = sizeof info;
  REQUIRE(flashattn_plan_info(plan, &info) == kOk);
  const char *reason = nullptr;
  for (int32_t i = 0; i < info.reason_count; ++i) {
    REQUIRE(flashattn_plan_reason(plan, i, &reason) == kOk);
    CHECK(std::string(reason).find(": ") != std::string::npos);
  }
  CHECK(flashattn_plan_reason(plan, info.reason_count, &reason) == FLASHATTN_STATUS_INVALID_ARGUMENT);
  CHECK(reason == nullptr);
  CHECK(error_names({"index is", "reason_count"}));
  CHECK(flashattn_plan_reason(plan, -1, &reason) == FLASHATTN_STATUS_INVALID_ARGUMENT);
  flashattn_plan_destroy(plan);
}

TEST_CASE("every kernel listed can be forced when available, and the plan says so") {
  const CpuHandle handle;
  Fixture fixture;
  flashattn_kernel_info_t kernel{};
  kernel.struct_size = sizeof kernel;
  int forced = 0;
  for (int32_t i = 0; flashattn_kernel_info(FLASHATTN_BACKEND_CPU, i, &kernel) == kOk; ++i) {
    std::snprintf(fixture.problem.kernel, sizeof fixture.problem.kernel, "%s", kernel.name);
    flashattn_plan_t *plan = nullptr;
    const flashattn_status_t status = flashattn_plan_create(handle, &fixture.problem, &plan);
    if (status == kOk) {
      flashattn_plan_info_t info{};
      info.struct_size = sizeof info;
      REQUIRE(flashattn_plan_info(plan, &info) == kOk);
      CHECK(std::string(info.kernel) == kernel.name);
      ++forced;
    } else {
      CHECK(status == FLASHATTN_STATUS_UNSUPPORTED);
      CHECK(error_names({kernel.available == 0 ? kernel.reason : kernel.name}));
    }
    flashattn_plan_destroy(plan);
  }
  CHECK(forced > 0);
}

TEST_CASE("a forked child can use a CPU handle opened, and used, by the parent") {
  for (const int32_t threads : {1, 4}) {
    CAPTURE(threads);
    Fixture fixture;
    const std::vector<float> expected = cpu_result(fixture);
    flashattn_handle_t *handle = open_cpu(threads);
    REQUIRE(flashattn_attention(handle, &fixture.problem, &fixture.call, nullptr) == kOk);
    fixture.o.poison();
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a child that waits for threads it does not have must fail, not hang
      const bool right = flashattn_attention(handle, &fixture.problem, &fixture.call, nullptr) == kOk &&
                         fixture.o.all_written() &&
                         std::equal(expected.begin(), expected.end(), fixture.o.data());
      flashattn_destroy(handle);
      _exit(right ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(flashattn_attention(handle, &fixture.problem, &fixture.call, nullptr) == kOk);
    flashattn_destroy(handle);
  }
}

}  // namespace
}  // namespace flashattn::testing
