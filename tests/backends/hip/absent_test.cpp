// SPDX-License-Identifier: Apache-2.0
// What stands in the way of an MI300X is told apart, and in words. One process per state of the machine, which
// CMakeLists.txt sets up: a process opens its runtime once.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <string>

#include "flashattn.h"

namespace {

void check_refused(const flashattn_options_t &options, flashattn_status_t status, const char *words) {
  flashattn_handle_t *handle = nullptr;
  CHECK_EQ(flashattn_create(&options, &handle), status);
  CHECK_EQ(handle, nullptr);
  const std::string text = flashattn_last_error();
  INFO(text);
  CHECK_NE(text.find(words), std::string::npos);
}

flashattn_options_t hip_options() {
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_HIP;
  return options;
}

// Without a device of ours AUTO takes the CPU.
void check_auto_is_cpu() {
  flashattn_handle_t *handle = nullptr;
  REQUIRE_EQ(flashattn_create(nullptr, &handle), FLASHATTN_STATUS_OK);
  flashattn_handle_info_t info = {};
  info.struct_size = sizeof info;
  CHECK_EQ(flashattn_handle_info(handle, &info), FLASHATTN_STATUS_OK);
  CHECK_EQ(info.backend, FLASHATTN_BACKEND_CPU);
  flashattn_destroy(handle);
}

}  // namespace

TEST_CASE("no runtime: it could not be opened, and why") {
  check_refused(hip_options(), FLASHATTN_STATUS_NO_DRIVER, "the HIP runtime could not be opened: ");
  check_auto_is_cpu();
}

TEST_CASE("old runtime: too old, which symbol tells, and which is needed") {
  check_refused(hip_options(), FLASHATTN_STATUS_DRIVER_TOO_OLD,
                "the HIP runtime is too old: libamdhip64.so.5 has no hipRuntimeGetVersion; ROCm 5.2 or newer "
                "is needed");
  check_auto_is_cpu();
}

TEST_CASE("no device: the runtime is there, a device is not") {
  check_refused(hip_options(), FLASHATTN_STATUS_NO_DEVICE, "the HIP runtime is there, but ");
  check_auto_is_cpu();
}

TEST_CASE("wrong GPU: which it is, and which the kernels are for") {
  check_refused(hip_options(), FLASHATTN_STATUS_NO_DEVICE,
                "device is 0, AMD Instinct MI210 of capability 9.0; the kernels are for 9.4 (MI300)");
  check_auto_is_cpu();
}

TEST_CASE("device: what cannot be opened names the field and the rule") {
  flashattn_options_t options = hip_options();
  options.device = 3;
  check_refused(options, FLASHATTN_STATUS_INVALID_DEVICE, "device is 3; the backend hip has 2 devices");
  options = hip_options();
  options.flags = FLASHATTN_OPTION_VALIDATE;
  check_refused(options, FLASHATTN_STATUS_UNSUPPORTED, "FLASHATTN_OPTION_VALIDATE");
  flashattn_handle_t *handle = nullptr;
  options = hip_options();
  options.device = 1;
  REQUIRE_EQ(flashattn_create(&options, &handle), FLASHATTN_STATUS_OK);
  flashattn_handle_info_t info = {};
  info.struct_size = sizeof info;
  CHECK_EQ(flashattn_handle_info(handle, &info), FLASHATTN_STATUS_OK);
  CHECK_EQ(info.backend, FLASHATTN_BACKEND_HIP);
  CHECK_EQ(info.device, 1);
  CHECK_EQ(std::string(info.name), "AMD Instinct MI300X");
  flashattn_destroy(handle);
}
