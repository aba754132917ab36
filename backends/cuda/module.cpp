// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/module.h"

#include <utility>

namespace flashattn::cuda {

Modules::~Modules() {
  for (const auto &[image, module] : modules_) driver_.cuModuleUnload(module);
}

Status Modules::load(const unsigned char *image, CuModule *module) {
  const auto found = modules_.find(image);
  if (found != modules_.end()) {
    *module = found->second;
    return kOk;
  }
  if (Status status = check(driver_, driver_.cuModuleLoadData(module, image), "cuModuleLoadData");
      status != kOk) {
    return status;
  }
  modules_[image] = *module;
  return kOk;
}

Status Modules::function(const unsigned char *image, const char *name, int32_t shared_bytes,
                         CuFunction *function) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto key = std::make_pair(image, std::string(name));
  const auto found = functions_.find(key);
  if (found != functions_.end()) {
    *function = found->second;
    return kOk;
  }
  CuModule module = nullptr;
  if (Status status = load(image, &module); status != kOk) return status;
  CuFunction loaded = nullptr;
  if (Status status =
          check(driver_, driver_.cuModuleGetFunction(&loaded, module, name), "cuModuleGetFunction");
      status != kOk) {
    return status;
  }
  if (driver_.cuFuncLoad != nullptr) {
    if (Status status = check(driver_, driver_.cuFuncLoad(loaded), "cuFuncLoad"); status != kOk)
      return status;
  }
  // Before cuFuncLoad existed, asking for an attribute was what loaded a function.
  int registers = 0;
  if (Status status =
          check(driver_, driver_.cuFuncGetAttribute(&registers, kNumRegs, loaded), "cuFuncGetAttribute");
      status != kOk) {
    return status;
  }
  if (shared_bytes > 0) {
    if (Status status =
            check(driver_, driver_.cuFuncSetAttribute(loaded, kMaxDynamicSharedSize, shared_bytes),
                  "cuFuncSetAttribute");
        status != kOk) {
      return status;
    }
  }
  functions_[key] = loaded;
  *function = loaded;
  return kOk;
}

}  // namespace flashattn::cuda
