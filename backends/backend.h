// SPDX-License-Identifier: Apache-2.0
// The internal table every backend fills: look (Backend), open (BackendDevice), plan and run (BackendPlan).
// src/ validates and owns the public objects; a backend sees only normalised problems and checked calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flashattn.h"
#include "src/host.h"
#include "src/status.h"

namespace flashattn {

// A plan of one device. Immutable after creation; run may be called from many threads at once, each with a
// workspace of its own. On an asynchronous device a plan is destroyed (the plan cache evicts it) while its
// work may still be queued; what such work needs belongs to the device.
class BackendPlan {
 public:
  virtual ~BackendPlan() = default;

  // Fills everything but struct_size, reason_count and materialized_bytes, which src/ fills. The workspace
  // size is enough for every call within the problem's maxima.
  virtual void info(flashattn_plan_info_t *info) const = 0;

  // "kernel: reason" for each more specific kernel that was refused, in list order.
  virtual const std::vector<std::string> &reasons() const = 0;

  // Enqueues preparation of a fresh workspace of at least info().workspace_size bytes.
  virtual Status workspace_init(void *workspace, void *stream) const = 0;

  // Enqueues one call. `call` is full size, checked against the problem as far as the host can see without
  // reading the memory its pointers name: pointers present, strides and sizes in range, total row counts.
  // Lengths, cu_seqlens and page indices are the backend's to check: the CPU reads them and answers
  // INVALID_DATA before anything is written; a GPU kernel skips a sequence that breaks a rule. Never
  // allocates, synchronises or logs.
  virtual Status run(const flashattn_call_t &call, void *workspace, void *stream) const = 0;
};

// One open device. Thread-safe.
class BackendDevice {
 public:
  virtual ~BackendDevice() = default;

  // Fills everything but struct_size.
  virtual void info(flashattn_handle_info_t *info) const = 0;

  // The only oracle: UNSUPPORTED with the field, value and rule when no kernel takes the problem.
  virtual Status plan(const flashattn_problem_t &problem, std::unique_ptr<BackendPlan> *plan) = 0;

  // Enqueues a merge; args are full size and checked like a call.
  virtual Status combine(const flashattn_combine_args_t &args, void *stream) = 0;

  // Device memory for the workspace pool of flashattn_attention. size > 0, alignment a power of two. On an
  // asynchronous device release is called while work that uses the memory may still be queued: it must wait
  // or defer.
  virtual Status allocate(size_t size, size_t alignment, void **memory) = 0;
  virtual void release(void *memory, size_t size, size_t alignment) = 0;

  // Whether the stream is being captured into a graph. CPU: never.
  virtual Status is_capturing(void *stream, bool *capturing) = 0;

  // Whether workspaces must be kept apart by stream (GPU) or handed to one running call at a time (CPU).
  virtual bool asynchronous() const = 0;
};

// One backend, as compiled into the library: a constant object without state, constructor or destructor of
// its own.
class Backend {
 public:
  virtual int32_t id() const = 0;        // FLASHATTN_BACKEND_*
  virtual const char *name() const = 0;  // "cpu", "cuda", "hip"

  // Counts usable devices without opening a driver context. When there are none, *count is 0 and the status
  // says why (NOT_BUILT, NO_DRIVER, DRIVER_TOO_OLD, NO_DEVICE). driver_version may be 0.
  virtual Status probe(int32_t *count, int32_t *driver_version) const = 0;

  // Fills everything but struct_size, backend and ordinal. 0 <= ordinal < count of probe.
  virtual Status device_info(int32_t ordinal, flashattn_device_info_t *info) const = 0;

  virtual int32_t kernel_count() const = 0;
  // Fills name, available and reason. 0 <= index < kernel_count(). Opens no driver context.
  virtual void kernel_info(int32_t index, flashattn_kernel_info_t *info) const = 0;

  // Opens a device. options are full size and checked; host outlives the device.
  virtual Status open(const flashattn_options_t &options, const Host &host,
                      std::unique_ptr<BackendDevice> *device) const = 0;

 protected:
  ~Backend() = default;
};

}  // namespace flashattn
