// SPDX-License-Identifier: Apache-2.0
// The workspaces flashattn_attention lends to its calls.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "backends/backend.h"
#include "src/plan_state.h"

namespace flashattn {

// At most kCapacity workspaces are kept. Thread-safe.
//
// Synchronous devices: a workspace is lent to one running call at a time; when all kept ones are lent, a call
// gets one of its own that goes with it. Asynchronous devices: a stream has one workspace, since work on a
// stream runs in order; calls on one stream take turns to enqueue, and the least recently used stream loses
// its workspace to a new one. BackendDevice::release is safe while work that uses the memory is still queued.
class WorkspacePool {
 public:
  static constexpr int kCapacity = 16;

  explicit WorkspacePool(BackendDevice &device) noexcept : device_(device) {}
  ~WorkspacePool();
  WorkspacePool(const WorkspacePool &) = delete;
  WorkspacePool &operator=(const WorkspacePool &) = delete;

  // Runs body(memory) with an initialised workspace that fits the plan; `stream` as the caller gave it.
  template <typename Body>
  Status with_workspace(const PlanState &plan, void *stream, Body &&body) {
    Slot own;
    Slot *slot = take(plan, stream, &own);
    const Return on_exit{*this, slot, slot == &own};
    if (Status status = prepare(plan, stream, slot); status != kOk) return status;
    const Status status = body(slot->memory);
    if (status != kOk) slot->plan_id = 0;  // what a failed call left behind is unknown
    return status;
  }

 private:
  struct Slot {
    void *memory = nullptr;
    size_t size = 0;
    size_t alignment = 1;
    void *stream = nullptr;  // of asynchronous devices
    uint64_t plan_id = 0;    // the plan that initialised it last
    uint64_t last_used = 0;  // by clock_; 0 = never
    bool lent = false;
    bool stale = false;  // the memory belongs to another stream
  };

  struct Return {
    WorkspacePool &pool;
    Slot *slot;
    bool own;
    ~Return() { pool.give_back(slot, own); }
  };

  // A lent slot, or `own` when a synchronous device has none left. Waits for nothing but other calls'
  // enqueueing.
  Slot *take(const PlanState &plan, void *stream, Slot *own);
  Slot *choose_by_fit(const PlanState &plan);
  Slot *choose_by_stream(void *stream);
  Slot *oldest_idle();
  // Gives the lent slot memory that fits, initialised for the plan.
  Status prepare(const PlanState &plan, void *stream, Slot *slot);
  void give_back(Slot *slot, bool own) noexcept;
  void free_memory(Slot *slot) noexcept;

  BackendDevice &device_;
  std::mutex mutex_;  // guards clock_ and each slot's stream, last_used and lent; the rest is the borrower's
  std::condition_variable returned_;
  uint64_t clock_ = 0;
  Slot slots_[kCapacity];
};

}  // namespace flashattn
