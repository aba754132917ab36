// SPDX-License-Identifier: Apache-2.0
#include "src/workspace_pool.h"

namespace flashattn {
namespace {

bool fits(size_t size, size_t alignment, const PlanState &plan) {
  return size >= plan.info.workspace_size && alignment >= plan.info.workspace_alignment;
}

}  // namespace

WorkspacePool::~WorkspacePool() {
  for (Slot &slot : slots_) free_memory(&slot);
}

WorkspacePool::Slot *WorkspacePool::oldest_idle() {
  Slot *oldest = nullptr;
  for (Slot &slot : slots_) {
    if (!slot.lent && (oldest == nullptr || slot.last_used < oldest->last_used)) oldest = &slot;
  }
  return oldest;
}

// The smallest idle workspace that fits, one this plan has used before any other; else the oldest, to grow.
WorkspacePool::Slot *WorkspacePool::choose_by_fit(const PlanState &plan) {
  Slot *best = nullptr;
  for (Slot &slot : slots_) {
    if (slot.lent || slot.memory == nullptr || !fits(slot.size, slot.alignment, plan)) continue;
    if (slot.plan_id == plan.id) return &slot;
    if (best == nullptr || slot.size < best->size) best = &slot;
  }
  return best != nullptr ? best : oldest_idle();
}

WorkspacePool::Slot *WorkspacePool::choose_by_stream(void *stream) {
  for (Slot &slot : slots_) {
    if (slot.last_used != 0 && slot.stream == stream) return slot.lent ? nullptr : &slot;
  }
  return oldest_idle();
}

WorkspacePool::Slot *WorkspacePool::take(const PlanState &plan, void *stream, Slot *own) {
  std::unique_lock<std::mutex> lock(mutex_);
  Slot *slot = nullptr;
  if (device_.asynchronous()) {
    returned_.wait(lock, [&] { return (slot = choose_by_stream(stream)) != nullptr; });
    // Work queued on the stream that had it is not ordered before ours, so the memory cannot be taken over.
    slot->stale = slot->stream != stream;
    slot->stream = stream;
  } else {
    slot = choose_by_fit(plan);
    if (slot == nullptr) return own;
  }
  slot->lent = true;
  slot->last_used = ++clock_;
  return slot;
}

Status WorkspacePool::prepare(const PlanState &plan, void *stream, Slot *slot) {
  if (slot->memory == nullptr || slot->stale || !fits(slot->size, slot->alignment, plan)) {
    free_memory(slot);
    const size_t size = plan.info.workspace_size;
    const size_t alignment = plan.info.workspace_alignment;
    if (Status status = device_.allocate(size, alignment, &slot->memory); status != kOk) {
      slot->memory = nullptr;
      return status;
    }
    slot->size = size;
    slot->alignment = alignment;
    slot->stale = false;
  }
  if (slot->plan_id != plan.id) {
    slot->plan_id = 0;
    if (Status status = plan.backend->workspace_init(slot->memory, stream); status != kOk) return status;
    slot->plan_id = plan.id;
  }
  return kOk;
}

void WorkspacePool::give_back(Slot *slot, bool own) noexcept {
  if (own) {
    free_memory(slot);
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    slot->lent = false;
  }
  returned_.notify_all();
}

void WorkspacePool::free_memory(Slot *slot) noexcept {
  if (slot->memory != nullptr) device_.release(slot->memory, slot->size, slot->alignment);
  slot->memory = nullptr;
  slot->plan_id = 0;
}

}  // namespace flashattn
