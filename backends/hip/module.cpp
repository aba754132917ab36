// SPDX-License-Identifier: Apache-2.0
#include "backends/hip/module.h"

#include <utility>

namespace flashattn::hip {

Modules::~Modules() {
  for (const auto &[image, module] : modules_) driver_.hipModuleUnload(module);
}

Status Modules::load(const unsigned char *image, HipModule *module) {
  const auto found = modules_.find(image);
  if (found != modules_.end()) {
    *module = found->second;
    return kOk;
  }
  if (Status status = check(driver_, driver_.hipModuleLoadData(module, image), "hipModuleLoadData");
      status != kOk) {
    return status;
  }
  modules_[image] = *module;
  return kOk;
}

Status Modules::function(const unsigned char *image, const char *name, HipFunction *function) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto key = std::make_pair(image, std::string(name));
  const auto found = functions_.find(key);
  if (found != functions_.end()) {
    *function = found->second;
    return kOk;
  }
  HipModule module = nullptr;
  if (Status status = load(image, &module); status != kOk) return status;
  if (Status status =
          check(driver_, driver_.hipModuleGetFunction(function, module, name), "hipModuleGetFunction");
      status != kOk) {
    return status;
  }
  functions_[key] = *function;
  return kOk;
}

}  // namespace flashattn::hip
