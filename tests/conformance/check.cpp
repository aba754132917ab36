// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/check.h"

#include <doctest/doctest.h>

namespace flashattn::test {
namespace {
bool quick_run = false;
constexpr double kQuickShare = 0.2;
}  // namespace

bool quick() {
  return quick_run;
}
void set_quick(bool value) {
  quick_run = value;
}

void check_case(const Case &c) {
  for (const std::string &failure : Session::instance().run_everywhere(c)) FAIL_CHECK(failure);
}

void check_table(const std::string &table, std::vector<Case> cases) {
  Rng sample = rng_for(table + " sample");
  for (size_t n = 0; n < cases.size(); ++n) {
    if (quick() && n > 0 && !sample.chance(kQuickShare)) continue;
    cases[n].name = table + " #" + std::to_string(n) + (cases[n].name.empty() ? "" : ": ") + cases[n].name;
    check_case(cases[n]);
  }
}

bool run_on(const Kernel &kernel, const Case &c, PreparedCall &call, const Expected *expected) {
  const Outcome outcome = Session::instance().run_once(c, call, expected, kernel);
  INFO("kernel ", kernel.label(), ", case ", describe(c), ", seed ", run_seed());
  // The CPU backend is complete: nothing is refused by its own choice or its last kernel.
  const bool hole = kernel.complete && kernel.backend == FLASHATTN_BACKEND_CPU;
  if (outcome.kind == Outcome::kFailed || (outcome.kind == Outcome::kRefused && hole))
    FAIL_CHECK(outcome.text);
  return outcome.kind == Outcome::kPassed;
}

}  // namespace flashattn::test
