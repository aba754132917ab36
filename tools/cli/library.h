// SPDX-License-Identifier: Apache-2.0
// The tool's use of libflashattn: a handle, and a problem planned on it with its tensors in place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flashattn.h"
#include "tools/cli/attention.h"
#include "tools/cli/memory.h"

namespace flashattn::cli {

const char *backend_name(int32_t backend);         // "auto", "cpu", "cuda", "hip"
int32_t backend_of_name(const std::string &name);  // the inverse; throws InputError

// An open device.
class Device {
 public:
  // backend: FLASHATTN_BACKEND_*. threads 0: as many as the process may use.
  Device(int32_t backend, int32_t device, int32_t threads);

  flashattn_handle_t *handle() const { return handle_.get(); }
  const flashattn_handle_info_t &info() const { return info_; }
  Memory &memory() const { return *memory_; }
  // CPU threads for the tool's own work beside this device.
  int host_threads() const;

 private:
  struct Destroy {
    void operator()(flashattn_handle_t *handle) const { flashattn_destroy(handle); }
  };
  std::unique_ptr<flashattn_handle_t, Destroy> handle_;
  flashattn_handle_info_t info_{};
  std::unique_ptr<Memory> memory_;
};

// How the problem is to be computed; what is computed is in Attention.
struct PlanOptions {
  std::string kernel;      // "": choose
  int32_t num_splits = 0;  // 0: choose
  bool batch_invariant = false;
  Element element_o = Element::kF32;
};

// A plan, and one call with its inputs on the device.
class PreparedCall {
 public:
  // Throws InputError when K, V, bias, slopes or sinks do not fit Q, or the library refuses an argument.
  PreparedCall(const Device &device, const Attention &problem, Layout layout, const PlanOptions &options);

  const flashattn_plan_info_t &info() const { return info_; }
  // The kernel this call runs: the fast one, or the generic one where base or strides do not suit it.
  const char *kernel() const;
  const std::vector<std::string> &reasons() const { return reasons_; }

  void run();          // enqueues; on the CPU the work is done on return
  void synchronize();  // waits for it
  void run_and_wait(int repeats);
  Tensor o() const;    // ordered as Q
  Tensor lse() const;  // f32 [batch, heads, n_q]; without the batch when Q has three dimensions

 private:
  const void *place(const Tensor &tensor);

  struct Destroy {
    void operator()(flashattn_plan_t *plan) const { flashattn_plan_destroy(plan); }
  };
  const Device &device_;
  flashattn_problem_t problem_ = FLASHATTN_PROBLEM_INIT;
  flashattn_call_t call_ = FLASHATTN_CALL_INIT;
  std::unique_ptr<flashattn_plan_t, Destroy> plan_;
  flashattn_plan_info_t info_{};
  std::vector<std::string> reasons_;
  std::vector<Buffer> buffers_;
  Buffer workspace_;
  Tensor o_;
  Tensor lse_;
};

}  // namespace flashattn::cli
