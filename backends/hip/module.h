// SPDX-License-Identifier: Apache-2.0
// Device code, loaded before it is first launched, and launching it.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "backends/hip/driver.h"

namespace flashattn::hip {

// The functions of one device, loaded on demand and kept until the device is given up. Thread-safe.
class Modules {
 public:
  explicit Modules(const HipDriver &driver) : driver_(driver) {}
  // The device is current.
  ~Modules();
  Modules(const Modules &) = delete;
  Modules &operator=(const Modules &) = delete;

  // The function `name` of an embedded image. The device is current.
  Status function(const unsigned char *image, const char *name, HipFunction *function);

 private:
  Status load(const unsigned char *image, HipModule *module);

  const HipDriver &driver_;
  std::mutex mutex_;
  std::map<const unsigned char *, HipModule> modules_;
  std::map<std::pair<const unsigned char *, std::string>, HipFunction> functions_;
};

// Enqueues a kernel that takes a plain struct and the number of blocks launched, which is at most `most`: kernels that
// may be given more work loop over it.
template <typename Args>
Status launch(const HipDriver &driver, HipFunction function, int64_t blocks, int64_t most, int32_t threads,
              HipStream stream, const Args &args) {
  int64_t grid = std::min(blocks, most);
  void *parameters[] = {const_cast<Args *>(&args), &grid};
  return check(
      driver,
      driver.hipModuleLaunchKernel(function, static_cast<unsigned>(grid), 1, 1,
                                   static_cast<unsigned>(threads), 1, 1, 0, stream, parameters, nullptr),
      "hipModuleLaunchKernel");
}

}  // namespace flashattn::hip
