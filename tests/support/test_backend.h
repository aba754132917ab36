// SPDX-License-Identifier: Apache-2.0
// A GPU-like backend for tests of everything above the backend table: two devices, asynchronous, opened
// through the driver table over a fake driver library. Its "kernels" are the CPU backend's, run when the
// stream is synchronised.
#pragma once

#include "backends/backend.h"
#include "backends/driver_table.h"
#include "tests/support/fake_driver.h"

namespace flashattn::testing {

// Stands in for FLASHATTN_BACKEND_CUDA in the registry.
class TestBackend final : public Backend {
 public:
  // The library candidates must outlive the backend.
  TestBackend(const char *const *libraries, size_t library_count);
  ~TestBackend() = default;

  int32_t id() const override { return FLASHATTN_BACKEND_CUDA; }
  const char *name() const override { return "cuda"; }
  Status probe(int32_t *count, int32_t *driver_version) const override;
  Status device_info(int32_t ordinal, flashattn_device_info_t *info) const override;
  int32_t kernel_count() const override;
  void kernel_info(int32_t index, flashattn_kernel_info_t *info) const override;
  Status open(const flashattn_options_t &options, const Host &host,
              std::unique_ptr<BackendDevice> *device) const override;

  DriverTable<fake_driver_t> &driver() const { return driver_; }

 private:
  mutable DriverTable<fake_driver_t> driver_;
};

// The control functions of a fake driver library.
fake_control_t open_control(const char *library);

}  // namespace flashattn::testing
