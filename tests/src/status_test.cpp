// SPDX-License-Identifier: Apache-2.0
#include "src/status.h"

#include <doctest/doctest.h>

#include <cstring>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "src/barrier.h"
#include "tests/src/fixture.h"

namespace flashattn::testing {
namespace {

TEST_CASE("every status has a text of its own, and any other value one too") {
  constexpr flashattn_status_t kAll[] = {0,   100, 101, 102, 103, 104, 105, 200, 201, 202,
                                         203, 300, 301, 400, 401, 402, 403, 404, 405, 500};
  std::set<std::string> texts;
  for (const flashattn_status_t status : kAll) texts.insert(flashattn_status_string(status));
  CHECK(texts.size() == std::size(kAll));
  CHECK(texts.count("unknown status") == 0);
  for (const flashattn_status_t status : {-1, 1, 99, 106, 501, INT32_MIN, INT32_MAX}) {
    CHECK(std::string(flashattn_status_string(status)) == "unknown status");
  }
}

TEST_CASE("the version of the library is the header's") {
  CHECK(flashattn_version() == FLASHATTN_VERSION);
  CHECK(std::string(flashattn_version_string()) == "0.1.0");
}

TEST_CASE("each thread has its own last error, empty at first") {
  fail(FLASHATTN_STATUS_INTERNAL, "mine");
  std::thread([] {
    CHECK(std::string(flashattn_last_error()).empty());
    CHECK(flashattn_last_driver_error() == 0);
    fail_driver(FLASHATTN_STATUS_DRIVER_ERROR, 700, "theirs");
    CHECK(std::string(flashattn_last_error()) == "theirs");
    CHECK(flashattn_last_driver_error() == 700);
  }).join();
  CHECK(std::string(flashattn_last_error()) == "mine");
  CHECK(flashattn_last_driver_error() == 0);
}

TEST_CASE("last_error_copy cuts to the buffer and answers the whole length") {
  fail(FLASHATTN_STATUS_INTERNAL, "eleven char");
  CHECK(flashattn_last_error_copy(nullptr, 0) == 11);
  char buffer[16];
  std::memset(buffer, 'x', sizeof buffer);
  CHECK(flashattn_last_error_copy(buffer, 5) == 11);
  CHECK(std::string(buffer) == "elev");
  CHECK(buffer[5] == 'x');
  CHECK(flashattn_last_error_copy(buffer, 1) == 11);
  CHECK(std::string(buffer).empty());
  CHECK(flashattn_last_error_copy(buffer, sizeof buffer) == 11);
  CHECK(std::string(buffer) == "eleven char");
  buffer[0] = 'y';
  CHECK(flashattn_last_error_copy(buffer, 0) == 11);
  CHECK(buffer[0] == 'y');
}

TEST_CASE("a text longer than the storage ends in an ellipsis; an error may quote the one before") {
  const std::string longer(2 * kMaxErrorText, 'a');
  fail(FLASHATTN_STATUS_INTERNAL, "%s", longer.c_str());
  const std::string kept = flashattn_last_error();
  CHECK(kept.size() == kMaxErrorText - 1);
  CHECK(kept.substr(kept.size() - 4) == "a...");
  fail(FLASHATTN_STATUS_INTERNAL, "short");
  fail(FLASHATTN_STATUS_INTERNAL, "because: %s", flashattn_last_error());
  CHECK(std::string(flashattn_last_error()) == "because: short");
}

TEST_CASE("a successful call leaves the last error as it was") {
  fail_driver(FLASHATTN_STATUS_DRIVER_ERROR, 3, "before");
  flashattn_handle_t *handle = nullptr;
  REQUIRE(flashattn_create(nullptr, &handle) == FLASHATTN_STATUS_OK);  // tries GPUs that may not be there
  flashattn_destroy(handle);
  int32_t count = 0;
  CHECK(flashattn_device_count(FLASHATTN_BACKEND_AUTO, &count) == FLASHATTN_STATUS_OK);
  Fixture fixture;
  CHECK(flashattn_attention(CpuHandle(), &fixture.problem, &fixture.call, nullptr) == FLASHATTN_STATUS_OK);
  CHECK(std::string(flashattn_last_error()) == "before");
  CHECK(flashattn_last_driver_error() == 3);
}

TEST_CASE("whatever is thrown becomes a status at the barrier") {
  CHECK(barrier([]() -> Status { throw std::bad_alloc(); }) == FLASHATTN_STATUS_OUT_OF_MEMORY);
  CHECK(error_names({"memory"}));
  CHECK(barrier([]() -> Status {
          throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
        }) == FLASHATTN_STATUS_OUT_OF_THREADS);
  CHECK(error_names({"thread"}));
  CHECK(barrier([]() -> Status { throw std::system_error(std::make_error_code(std::errc::io_error)); }) ==
        FLASHATTN_STATUS_INTERNAL);
  CHECK(barrier([]() -> Status { throw std::runtime_error("odd"); }) == FLASHATTN_STATUS_INTERNAL);
  CHECK(error_names({"odd"}));
  CHECK(barrier([]() -> Status { throw 5; }) == FLASHATTN_STATUS_INTERNAL);
  CHECK(barrier([] { return kOk; }) == kOk);
}

}  // namespace
}  // namespace flashattn::testing
