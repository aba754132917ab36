// SPDX-License-Identifier: Apache-2.0
#include "backends/driver_table.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <iterator>
#include <thread>
#include <vector>

#include "tests/src/fixture.h"
#include "tests/support/fake_driver.h"

namespace flashattn {
namespace {

using testing::error_names;

constexpr DriverEntry kEntries[] = {
    {"fakeDriverGetVersion", offsetof(fake_driver_t, fakeDriverGetVersion), DriverMark::kRequired},
    {"fakeLaunch", offsetof(fake_driver_t, fakeLaunch), DriverMark::kRequired},
    {"fakeLaunchNewer", offsetof(fake_driver_t, fakeLaunchNewer), DriverMark::kOptional},
};

template <size_t kCount>
DriverDescription describe(const char *const (&libraries)[kCount]) {
  return {"the fake driver", "driver 12.2", libraries, kCount, kEntries, std::size(kEntries)};
}

TEST_CASE("the first library that opens fills the table; an optional symbol may be missing") {
  constexpr const char *kLibraries[] = {"libno_such_driver.so.1", FAKE_DRIVER};
  DriverTable<fake_driver_t> driver(describe(kLibraries));
  const fake_driver_t *table = nullptr;
  REQUIRE(driver.get(&table) == kOk);
  REQUIRE((table->fakeDriverGetVersion != nullptr));
  CHECK((table->fakeLaunch != nullptr));
  CHECK((table->fakeLaunchNewer == nullptr));
  CHECK((table->fakeMemAlloc == nullptr));  // not an entry of this description
  int version = 0;
  CHECK(table->fakeDriverGetVersion(&version) == 0);
  CHECK(version == 12020);
}

TEST_CASE("no library is NO_DRIVER and names every candidate") {
  constexpr const char *kLibraries[] = {"libno_such_driver.so.1", "libnor_this.so"};
  DriverTable<fake_driver_t> driver(describe(kLibraries));
  const fake_driver_t *table = nullptr;
  for (int again = 0; again < 2; ++again) {
    fail(FLASHATTN_STATUS_INTERNAL, "another error between");
    CHECK(driver.get(&table) == FLASHATTN_STATUS_NO_DRIVER);
    CHECK(error_names({"the fake driver", "libno_such_driver.so.1", "libnor_this.so"}));
  }
}

TEST_CASE("a missing required symbol is DRIVER_TOO_OLD and is named with the minimum") {
  constexpr const char *kLibraries[] = {FAKE_DRIVER_OLD};
  DriverTable<fake_driver_t> driver(describe(kLibraries));
  const fake_driver_t *table = nullptr;
  CHECK(driver.get(&table) == FLASHATTN_STATUS_DRIVER_TOO_OLD);
  CHECK(error_names({"fakeLaunch", FAKE_DRIVER_OLD, "driver 12.2"}));
}

TEST_CASE("a double takes the driver's place without any library") {
  constexpr const char *kLibraries[] = {"libno_such_driver.so.1"};
  DriverTable<fake_driver_t> driver(describe(kLibraries));
  const fake_driver_t own{};
  driver.set_double(&own);
  const fake_driver_t *table = nullptr;
  CHECK(driver.get(&table) == kOk);
  CHECK(table == &own);
  driver.set_double(nullptr);
  CHECK(driver.get(&table) == FLASHATTN_STATUS_NO_DRIVER);
}

TEST_CASE("threads that ask at once get one table") {
  constexpr const char *kLibraries[] = {FAKE_DRIVER};
  DriverTable<fake_driver_t> driver(describe(kLibraries));
  std::vector<const fake_driver_t *> tables(8);
  std::vector<std::thread> threads;
  for (auto &table : tables) threads.emplace_back([&driver, &table] { driver.get(&table); });
  for (auto &thread : threads) thread.join();
  for (const auto *table : tables) {
    REQUIRE(table == tables[0]);
    CHECK((table->fakeLaunch != nullptr));
  }
}

}  // namespace
}  // namespace flashattn
