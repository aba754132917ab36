// SPDX-License-Identifier: Apache-2.0
// Stands in the registry for a backend this build left out, so that asking for it says why and how to get it.
#pragma once

#include "backends/backend.h"

namespace flashattn {

class NotBuiltBackend final : public Backend {
 public:
  // how: what to do to have it, "configure with -DFLASHATTN_CUDA=ON". Both texts static.
  constexpr NotBuiltBackend(int32_t id, const char *name, const char *how)
      : id_(id), name_(name), how_(how) {}

  int32_t id() const override { return id_; }
  const char *name() const override { return name_; }
  Status probe(int32_t *count, int32_t *driver_version) const override {
    *count = 0;
    *driver_version = 0;
    return refuse();
  }
  Status device_info(int32_t /*ordinal*/, flashattn_device_info_t * /*info*/) const override {
    return refuse();
  }
  int32_t kernel_count() const override { return 0; }
  void kernel_info(int32_t /*index*/, flashattn_kernel_info_t * /*info*/) const override {}
  Status open(const flashattn_options_t & /*options*/, const Host & /*host*/,
              std::unique_ptr<BackendDevice> * /*device*/) const override {
    return refuse();
  }

 private:
  Status refuse() const {
    return fail(FLASHATTN_STATUS_NOT_BUILT, "the backend %s is not in this build of the library; %s", name_,
                how_);
  }

  int32_t id_;
  const char *name_;
  const char *how_;
};

}  // namespace flashattn
