// SPDX-License-Identifier: Apache-2.0
// Device code, loaded completely before it is first launched.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "backends/cuda/driver.h"

namespace flashattn::cuda {

// The functions of one context, loaded on demand and kept until the context is given up. Thread-safe.
class Modules {
 public:
  explicit Modules(const CudaDriver &driver) : driver_(driver) {}
  // The context is current.
  ~Modules();
  Modules(const Modules &) = delete;
  Modules &operator=(const Modules &) = delete;

  // The function `name` of an embedded image, resident on the device also where the driver loads lazily, and
  // allowed shared_bytes of dynamic shared memory. The context is current.
  Status function(const unsigned char *image, const char *name, int32_t shared_bytes, CuFunction *function);

 private:
  Status load(const unsigned char *image, CuModule *module);

  const CudaDriver &driver_;
  std::mutex mutex_;
  std::map<const unsigned char *, CuModule> modules_;
  std::map<std::pair<const unsigned char *, std::string>, CuFunction> functions_;
};

}  // namespace flashattn::cuda
