// SPDX-License-Identifier: Apache-2.0
// FLASHATTN_BACKEND, FLASHATTN_LOG and the log callback. The environment is read once per process, so every
// case runs in a child, and this program itself never opens a handle.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/src/fixture.h"

namespace flashattn::testing {
namespace {

constexpr flashattn_status_t kOk = FLASHATTN_STATUS_OK;

struct Outcome {
  int exit_code;
  std::string output;  // standard output and standard error
};

// Runs body() in a child with the two variables set (nullptr = unset).
template <typename Body>
Outcome in_child(const char *backend, const char *log, Body body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    const auto set = [](const char *name, const char *value) {
      if (value != nullptr) {
        setenv(name, value, 1);
      } else {
        unsetenv(name);
      }
    };
    set("FLASHATTN_BACKEND", backend);
    set("FLASHATTN_LOG", log);
    _exit(body());
  }
  close(ends[1]);
  std::string output;
  char buffer[512];
  for (ssize_t count = read(ends[0], buffer, sizeof buffer); count > 0;
       count = read(ends[0], buffer, sizeof buffer)) {
    output.append(buffer, static_cast<size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), output};
}

// The status of opening a backend; the handle is closed again.
flashattn_status_t open(int32_t backend, int32_t *opened = nullptr) {
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = backend;
  flashattn_handle_t *handle = nullptr;
  const flashattn_status_t status = flashattn_create(&options, &handle);
  if (status == kOk && opened != nullptr) {
    flashattn_handle_info_t info{};
    info.struct_size = sizeof info;
    flashattn_handle_info(handle, &info);
    *opened = info.backend;
  }
  flashattn_destroy(handle);
  return status;
}

TEST_CASE("FLASHATTN_BACKEND says what AUTO means") {
  const auto opens_cpu = [] {
    int32_t opened = 0;
    return open(FLASHATTN_BACKEND_AUTO, &opened) == kOk && opened == FLASHATTN_BACKEND_CPU ? 0 : 1;
  };
  CHECK(in_child("cpu", nullptr, opens_cpu).exit_code == 0);
  const auto opens = [] { return open(FLASHATTN_BACKEND_AUTO) == kOk ? 0 : 1; };
  for (const char *value : {static_cast<const char *>(nullptr), "", "auto"}) {
    CHECK(in_child(value, nullptr, opens).exit_code == 0);
  }
  // A GPU asked for this way is no less an error when it is not there.
  const struct {
    const char *name;
    int32_t id;
  } gpus[] = {{"cuda", FLASHATTN_BACKEND_CUDA}, {"hip", FLASHATTN_BACKEND_HIP}};
  for (const auto &gpu : gpus) {
    const auto agrees = [&] {
      int32_t opened = gpu.id;
      const flashattn_status_t named = open(gpu.id, &opened);
      const std::string reason = flashattn_last_error();
      const flashattn_status_t by_environment = open(FLASHATTN_BACKEND_AUTO, &opened);
      return named == by_environment && reason == flashattn_last_error() && opened == gpu.id ? 0 : 1;
    };
    CHECK(in_child(gpu.name, nullptr, agrees).exit_code == 0);
  }
  const auto named_cpu = [] {
    int32_t opened = 0;
    return open(FLASHATTN_BACKEND_CPU, &opened) == kOk && opened == FLASHATTN_BACKEND_CPU ? 0 : 1;
  };
  CHECK(in_child("hip", nullptr, named_cpu).exit_code == 0);
}

TEST_CASE("an unknown value is ENVIRONMENT with the variable, the value and the rule, for every backend") {
  struct Row {
    const char *backend, *log;
    std::vector<std::string> texts;
  };
  const std::string longer(300, 'z');
  const Row rows[] = {
      {"gpu", nullptr, {"FLASHATTN_BACKEND is \"gpu\"", "auto, cpu, cuda or hip"}},
      {"CPU", nullptr, {"FLASHATTN_BACKEND is \"CPU\""}},
      {"cpu ", nullptr, {"FLASHATTN_BACKEND is \"cpu \""}},
      {"", "verbose", {"FLASHATTN_LOG is \"verbose\"", "off, error, info or debug"}},
      {nullptr, "1", {"FLASHATTN_LOG is \"1\""}},
      {longer.c_str(), nullptr, {"FLASHATTN_BACKEND is \"zzz", "auto, cpu, cuda or hip"}},
  };
  for (const Row &row : rows) {
    CAPTURE(row.texts[0]);
    const Outcome outcome = in_child(row.backend, row.log, [&] {
      for (const int32_t backend : {FLASHATTN_BACKEND_AUTO, FLASHATTN_BACKEND_CPU, FLASHATTN_BACKEND_AUTO}) {
        if (open(backend) != FLASHATTN_STATUS_ENVIRONMENT) return 1;
        if (!error_names(row.texts)) return 2;
      }
      return 0;
    });
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.output.empty());
  }
}

TEST_CASE("the environment is read once, at the first create") {
  const Outcome outcome = in_child("cpu", "off", [] {
    if (open(FLASHATTN_BACKEND_AUTO) != kOk) return 1;
    setenv("FLASHATTN_BACKEND", "nonsense", 1);
    setenv("FLASHATTN_LOG", "debug", 1);
    return open(FLASHATTN_BACKEND_AUTO) == kOk ? 0 : 2;
  });
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.output.empty());
  CHECK(in_child("nonsense", nullptr, [] {
          if (open(FLASHATTN_BACKEND_AUTO) != FLASHATTN_STATUS_ENVIRONMENT) return 1;
          unsetenv("FLASHATTN_BACKEND");
          return open(FLASHATTN_BACKEND_AUTO) == FLASHATTN_STATUS_ENVIRONMENT ? 0 : 2;
        }).exit_code == 0);
}

// Opens, plans, fails to plan, attends and fails to attend.
int use_all(flashattn_options_t options) {
  Fixture fixture;
  options.backend = FLASHATTN_BACKEND_CPU;
  flashattn_handle_t *handle = nullptr;
  if (flashattn_create(&options, &handle) != kOk) return 1;
  flashattn_plan_t *plan = nullptr;
  if (flashattn_plan_create(handle, &fixture.problem, &plan) != kOk) return 2;
  flashattn_problem_t wrong = fixture.problem;
  wrong.head_dim = -9;
  flashattn_plan_t *other = nullptr;
  if (flashattn_plan_create(handle, &wrong, &other) == kOk) return 3;
  if (flashattn_attention(handle, &fixture.problem, &fixture.call, nullptr) != kOk) return 4;
  flashattn_call_t call = fixture.call;
  call.batch = -7;
  if (flashattn_attention(handle, &fixture.problem, &call, nullptr) == kOk) return 5;
  // Silent whatever happens.
  call.batch = -5;
  if (flashattn_forward(plan, &call, nullptr, 0, nullptr) == kOk) return 6;
  flashattn_plan_destroy(plan);
  flashattn_destroy(handle);
  options.device = 77;
  if (flashattn_create(&options, &handle) == kOk) return 7;
  return 0;
}

bool contains(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("nothing is printed unless FLASHATTN_LOG asks, and then no more than it asks for") {
  const auto use = [](const char *log) {
    const Outcome outcome = in_child(nullptr, log, [] { return use_all(FLASHATTN_OPTIONS_INIT); });
    CHECK(outcome.exit_code == 0);
    CHECK_FALSE(contains(outcome.output, "batch is -5"));
    return outcome.output;
  };
  CHECK(use(nullptr).empty());
  CHECK(use("off").empty());
  const std::string error = use("error");
  CHECK(contains(error, "flashattn error: plan_create: head_dim is -9"));
  CHECK(contains(error, "flashattn error: attention: batch is -7"));
  CHECK(contains(error, "flashattn error: create: device is 77"));
  CHECK_FALSE(contains(error, "info"));
  const std::string info = use("info");
  CHECK(contains(info, "flashattn info: opened cpu device 0"));
  CHECK(contains(info, "head_dim is -9"));
  CHECK_FALSE(contains(info, "debug"));
  const std::string debug = use("debug");
  CHECK(contains(debug, "flashattn debug: planned "));
  CHECK(contains(debug, "opened cpu"));
}

TEST_CASE("a log callback that uses the library leaves the error it was told of") {
  const Outcome outcome = in_child(nullptr, nullptr, [] {
    flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
    options.device = 66;
    options.backend = FLASHATTN_BACKEND_CPU;
    options.log = [](void * /*user*/, int32_t /*level*/, const char * /*message*/) {
      flashattn_create(nullptr, nullptr);
    };
    flashattn_handle_t *handle = nullptr;
    if (flashattn_create(&options, &handle) != FLASHATTN_STATUS_INVALID_DEVICE) return 1;
    return error_names({"device is 66"}) ? 0 : 2;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("a log callback gets every level and standard error nothing") {
  const Outcome outcome = in_child(nullptr, "debug", [] {
    struct Log {
      std::vector<std::pair<int32_t, std::string>> lines;
    } log;
    flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
    options.log = [](void *user, int32_t level, const char *message) {
      static_cast<Log *>(user)->lines.emplace_back(level, message);
    };
    options.log_user = &log;
    if (const int code = use_all(options); code != 0) return code;
    const auto has = [&log](int32_t level, const char *text) {
      for (const auto &line : log.lines) {
        if (line.first == level && contains(line.second, text)) return true;
      }
      return false;
    };
    if (!has(FLASHATTN_LOG_ERROR, "head_dim is -9")) return 11;
    if (!has(FLASHATTN_LOG_ERROR, "device is 77")) return 12;
    if (!has(FLASHATTN_LOG_INFO, "opened cpu")) return 13;
    if (!has(FLASHATTN_LOG_DEBUG, "planned ")) return 14;
    return has(FLASHATTN_LOG_ERROR, "batch is -5") ? 15 : 0;
  });
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.output.empty());
}

}  // namespace
}  // namespace flashattn::testing
