// SPDX-License-Identifier: Apache-2.0
// The object behind flashattn_handle_t.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "backends/backend.h"
#include "src/host.h"
#include "src/plan_cache.h"
#include "src/status.h"
#include "src/workspace_pool.h"

// One reference is the caller's, one is each public plan's. Members go in reverse order: plans and workspaces
// before the device, the device before the host.
struct flashattn_handle {
  flashattn_handle(const flashattn::Host &the_host, const flashattn::Backend &the_backend);

  std::atomic<uint64_t> mark;  // see LifeMark
  std::atomic<int64_t> references{1};
  const flashattn::Host host;
  const flashattn::Backend *backend;
  const pid_t process;  // that opened the device
  std::unique_ptr<flashattn::BackendDevice> device;
  flashattn_handle_info_t info;
  std::optional<flashattn::WorkspacePool> workspaces;
  flashattn::PlanCache plans;
};

namespace flashattn {

// First word of a public object: tells a live one from one destroyed or never made, as long as its memory
// lasts.
enum LifeMark : uint64_t {
  kLiveHandle = 0x656c646e61684146,  // "FAhandle"
  kLivePlan = 0x0000006e616c7046,    // "Fplan"
  kDestroyed = 0x6465796f72747364,   // "dstroyed"
};

// NULL_POINTER or INVALID_ARGUMENT unless the handle is open.
Status check_handle(const flashattn_handle *handle);

// FORKED in a child process of the one that opened an asynchronous device: its driver's state did not come
// along.
Status check_not_forked(const flashattn_handle &handle);

void retain_handle(flashattn_handle *handle) noexcept;
// The last reference closes the device. In a forked child of the process that opened an asynchronous device
// nothing is closed or freed, since no driver call is possible there.
void release_handle(flashattn_handle *handle) noexcept;

}  // namespace flashattn
