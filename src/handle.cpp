// SPDX-License-Identifier: Apache-2.0
#include "src/handle.h"

#include <unistd.h>

#include <cstdio>

#include "backends/registry.h"
#include "src/barrier.h"
#include "src/environment.h"
#include "src/host_allocator.h"
#include "src/options.h"
#include "src/structs.h"

flashattn_handle::flashattn_handle(const flashattn::Host &the_host, const flashattn::Backend &the_backend)
    : mark(flashattn::kLiveHandle),
      host(the_host),
      backend(&the_backend),
      process(getpid()),
      info(flashattn::make_struct<flashattn_handle_info_t>()) {}

namespace flashattn {
namespace {

bool is_forked(const flashattn_handle &handle) {
  return handle.device->asynchronous() && handle.process != getpid();
}

// Opens the device of one backend; *handle stays null on failure.
Status open_backend(const Backend &backend, const flashattn_options_t &options, const Host &host,
                    flashattn_handle **handle) {
  int32_t count = 0;
  int32_t driver_version = 0;
  if (Status status = backend.probe(&count, &driver_version); status != kOk) return status;
  if (options.device >= count) {
    return fail(FLASHATTN_STATUS_INVALID_DEVICE, "device is %d; the backend %s has %d device%s",
                options.device, backend.name(), count, count == 1 ? "" : "s");
  }
  auto destroy = [&host](flashattn_handle *object) { host_delete(host, object); };
  std::unique_ptr<flashattn_handle, decltype(destroy)> opened(host_new<flashattn_handle>(host, host, backend),
                                                              destroy);
  flashattn_options_t resolved = options;
  resolved.backend = backend.id();
  if (Status status = backend.open(resolved, opened->host, &opened->device); status != kOk) return status;
  opened->device->info(&opened->info);
  opened->workspaces.emplace(*opened->device);
  host.log(FLASHATTN_LOG_INFO, "opened %s device %d: %s", backend.name(), opened->info.device,
           opened->info.name);
  *handle = opened.release();
  return kOk;
}

// The first backend that opens. When none does, the error has every reason and the last backend's status.
Status open_any(const flashattn_options_t &options, const Host &host, flashattn_handle **handle) {
  const SavedError before;
  char reasons[kMaxErrorText] = "";
  size_t length = 0;
  Status status = kOk;
  for (int32_t index = 0; index < registry_count(); ++index) {
    const Backend &backend = registry_at(index);
    status = open_backend(backend, options, host, handle);
    if (status == kOk) {
      before.restore();
      return kOk;
    }
    host.log(FLASHATTN_LOG_INFO, "%s not used: %s", backend.name(), flashattn_last_error());
    if (length < sizeof reasons) {
      const int written = std::snprintf(reasons + length, sizeof reasons - length, "%s%s: %s",
                                        length == 0 ? "" : "; ", backend.name(), flashattn_last_error());
      length += static_cast<size_t>(written);
    }
  }
  return fail(status, "no backend could be opened: %s", reasons);
}

Status create(const flashattn_options_t *source, flashattn_handle **handle) {
  if (handle == nullptr) return fail(FLASHATTN_STATUS_NULL_POINTER, "handle is NULL");
  *handle = nullptr;
  Environment settings;
  if (Status status = environment(&settings); status != kOk) return status;
  flashattn_options_t options;
  if (Status status = check_options(source, settings, &options); status != kOk) return status;
  const Host host(options, settings.log_level);
  const Status status = barrier([&] {
    if (options.backend == FLASHATTN_BACKEND_AUTO) return open_any(options, host, handle);
    return open_backend(*registry_find(options.backend), options, host, handle);
  });
  if (status != kOk) host.log(FLASHATTN_LOG_ERROR, "create: %s", flashattn_last_error());
  return status;
}

Status handle_info(const flashattn_handle *handle, flashattn_handle_info_t *target) {
  if (Status status = check_handle(handle); status != kOk) return status;
  if (Status status = check_output_struct("info", target); status != kOk) return status;
  write_struct(handle->info, target);
  return kOk;
}

}  // namespace

Status check_handle(const flashattn_handle *handle) {
  if (handle == nullptr) return fail(FLASHATTN_STATUS_NULL_POINTER, "handle is NULL");
  if (handle->mark.load(std::memory_order_relaxed) == kLiveHandle) return kOk;
  return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "handle is %p; it is not an open handle",
              static_cast<const void *>(handle));
}

Status check_not_forked(const flashattn_handle &handle) {
  if (!is_forked(handle)) return kOk;
  return fail(
      FLASHATTN_STATUS_FORKED,
      "handle was opened by process %ld and this is process %ld; a %s handle does not survive fork, open one "
      "in the child",
      static_cast<long>(handle.process), static_cast<long>(getpid()), handle.backend->name());
}

void retain_handle(flashattn_handle *handle) noexcept {
  handle->references.fetch_add(1, std::memory_order_relaxed);
}

void release_handle(flashattn_handle *handle) noexcept {
  if (handle->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (is_forked(*handle)) return;
  host_delete(handle->host, handle);
}

}  // namespace flashattn

extern "C" {

flashattn_status_t flashattn_create(const flashattn_options_t *options, flashattn_handle_t **handle) {
  return flashattn::barrier([&] { return flashattn::create(options, handle); });
}

void flashattn_destroy(flashattn_handle_t *handle) {
  if (handle == nullptr) return;
  const flashattn::CancellationHold hold;
  uint64_t live = flashattn::kLiveHandle;
  if (handle->mark.compare_exchange_strong(live, flashattn::kDestroyed)) flashattn::release_handle(handle);
}

flashattn_status_t flashattn_handle_info(const flashattn_handle_t *handle, flashattn_handle_info_t *info) {
  return flashattn::barrier([&] { return flashattn::handle_info(handle, info); });
}

}  // extern "C"
