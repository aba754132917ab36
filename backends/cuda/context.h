// SPDX-License-Identifier: Apache-2.0
// Making a context current for the length of a scope.
#pragma once

#include "backends/cuda/driver.h"

namespace flashattn::cuda {

// The calling thread's current context is what it was again at the end, on every path.
class ScopedContext {
 public:
  ScopedContext(const CudaDriver &driver, CuContext context) : driver_(driver) {
    CuContext current = nullptr;
    result_ = driver.cuCtxGetCurrent(&current);
    if (result_ != kCudaSuccess || current == context) return;
    result_ = driver.cuCtxPushCurrent(context);
    pushed_ = result_ == kCudaSuccess;
  }
  ~ScopedContext() {
    CuContext popped = nullptr;
    if (pushed_) driver_.cuCtxPopCurrent(&popped);
  }
  ScopedContext(const ScopedContext &) = delete;
  ScopedContext &operator=(const ScopedContext &) = delete;

  Status status() const { return check(driver_, result_, "cuCtxPushCurrent"); }

 private:
  const CudaDriver &driver_;
  CuResult result_ = kCudaSuccess;
  bool pushed_ = false;
};

}  // namespace flashattn::cuda
