// SPDX-License-Identifier: Apache-2.0
// What stands in the way of a device is told apart, and in words.
#include <doctest/doctest.h>

#include <string>

#include "flashattn.h"

namespace flashattn {
namespace {

void check_refused(flashattn_status_t status, const char *words) {
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CUDA;
  flashattn_handle_t *handle = nullptr;
  CHECK(flashattn_create(&options, &handle) == status);
  CHECK(handle == nullptr);
  INFO(std::string(flashattn_last_error()));
  CHECK(std::string(flashattn_last_error()).find(words) != std::string::npos);
  // AUTO still finds the CPU.
  CHECK(flashattn_create(nullptr, &handle) == FLASHATTN_STATUS_OK);
  flashattn_destroy(handle);
}

}  // namespace

TEST_CASE("old driver: its version and the one that is needed") {
  check_refused(FLASHATTN_STATUS_DRIVER_TOO_OLD, "CUDA 11.8");
}

TEST_CASE("missing symbol: the driver is too old, and which symbol tells") {
  check_refused(FLASHATTN_STATUS_DRIVER_TOO_OLD, "cuLaunchKernel");
}

TEST_CASE("no device: the driver is there, a device is not") {
  check_refused(FLASHATTN_STATUS_NO_DEVICE, "device");
}

}  // namespace flashattn
