// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "tests/conformance/check.h"

namespace {

// The value of --name=value, or nullptr.
const char *option(const char *argument, const char *name) {
  const size_t length = std::strlen(name);
  return std::strncmp(argument, name, length) == 0 ? argument + length : nullptr;
}

}  // namespace

int main(int argc, char **argv) {
  using namespace flashattn::test;
  uint64_t seed = std::random_device()();
  if (const char *value = std::getenv("FLASHATTN_TEST_SEED")) seed = std::strtoull(value, nullptr, 0);
  std::string backend;
  std::string kernel;
  bool reasons = false;
  for (int n = 1; n < argc; ++n) {
    if (const char *value = option(argv[n], "--seed=")) seed = std::strtoull(value, nullptr, 0);
    if (const char *value = option(argv[n], "--backend=")) backend = value;
    if (const char *value = option(argv[n], "--kernel=")) kernel = value;
    if (std::strcmp(argv[n], "--quick") == 0) set_quick(true);
    if (std::strcmp(argv[n], "--reasons") == 0) reasons = true;
  }
  set_run_seed(seed);
  Session &session = Session::instance();
  session.filter(backend, kernel);
  if (session.kernels().empty()) {
    std::printf("no kernel to test\n");
    return 1;
  }
  std::printf("seed %llu%s\n", static_cast<unsigned long long>(seed), quick() ? ", quick" : "");
  const auto begin = std::chrono::steady_clock::now();
  doctest::Context context(argc, argv);
  const int result = context.run();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  std::printf("%s%.1f s, seed %llu\n", session.summary(reasons).c_str(), spent.count(),
              static_cast<unsigned long long>(seed));
  return result;
}
