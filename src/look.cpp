// SPDX-License-Identifier: Apache-2.0
// What this library and this machine have: backends, devices, kernels.
#include <cstdio>

#include "backends/registry.h"
#include "src/barrier.h"
#include "src/structs.h"

namespace flashattn {
namespace {

// The backend called `id`, or INVALID_ARGUMENT.
Status find_backend(int32_t id, const Backend **backend) {
  *backend = registry_find(id);
  if (*backend != nullptr) return kOk;
  return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
              "backend is %d; it must be FLASHATTN_BACKEND_CPU (1), _CUDA (2) or _HIP (3)", id);
}

Status check_index(int32_t index, int32_t count, const char *of) {
  if (index >= 0 && index < count) return kOk;
  return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "index is %d; it must be in 0..%d, there are %d %s", index,
              count - 1, count, of);
}

// Why a probe failed is part of the answer here, not the caller's last error.
Status probe_quietly(const Backend &backend, flashattn_backend_info_t *info) {
  const SavedError before;
  const Status status = backend.probe(&info->device_count, &info->driver_version);
  if (status != kOk) {
    std::snprintf(info->reason, sizeof info->reason, "%s", flashattn_last_error());
    before.restore();
  }
  return status;
}

Status backend_info(int32_t index, flashattn_backend_info_t *target) {
  if (Status status = check_output_struct("info", target); status != kOk) return status;
  if (Status status = check_index(index, registry_count(), "backends"); status != kOk) return status;
  const Backend &backend = registry_at(index);
  auto info = make_struct<flashattn_backend_info_t>();
  info.backend = backend.id();
  info.kernel_count = backend.kernel_count();
  std::snprintf(info.name, sizeof info.name, "%s", backend.name());
  info.status = probe_quietly(backend, &info);
  write_struct(info, target);
  return kOk;
}

// All devices of all backends. The status of the last backend that has none stands when nobody has any.
Status count_all(int32_t *count) {
  const SavedError before;
  Status why = kOk;
  for (int32_t index = 0; index < registry_count(); ++index) {
    int32_t devices = 0;
    int32_t driver_version = 0;
    const Status status = registry_at(index).probe(&devices, &driver_version);
    if (status != kOk) {
      why = status;
    } else {
      *count += devices;
    }
  }
  if (*count == 0) return why;
  before.restore();
  return kOk;
}

Status device_count(int32_t id, int32_t *count) {
  if (count == nullptr) return fail(FLASHATTN_STATUS_NULL_POINTER, "count is NULL");
  *count = 0;
  if (id == FLASHATTN_BACKEND_AUTO) return count_all(count);
  const Backend *backend = nullptr;
  if (Status status = find_backend(id, &backend); status != kOk) return status;
  int32_t driver_version = 0;
  return backend->probe(count, &driver_version);
}

Status device_info(int32_t id, int32_t ordinal, flashattn_device_info_t *target) {
  if (Status status = check_output_struct("info", target); status != kOk) return status;
  const Backend *backend = nullptr;
  if (Status status = find_backend(id, &backend); status != kOk) return status;
  int32_t count = 0;
  int32_t driver_version = 0;
  if (Status status = backend->probe(&count, &driver_version); status != kOk) return status;
  if (ordinal < 0 || ordinal >= count) {
    return fail(FLASHATTN_STATUS_INVALID_DEVICE, "ordinal is %d; the backend %s has %d device%s", ordinal,
                backend->name(), count, count == 1 ? "" : "s");
  }
  auto info = make_struct<flashattn_device_info_t>();
  if (Status status = backend->device_info(ordinal, &info); status != kOk) return status;
  info.backend = id;
  info.ordinal = ordinal;
  write_struct(info, target);
  return kOk;
}

Status kernel_info(int32_t id, int32_t index, flashattn_kernel_info_t *target) {
  if (Status status = check_output_struct("info", target); status != kOk) return status;
  const Backend *backend = nullptr;
  if (Status status = find_backend(id, &backend); status != kOk) return status;
  if (Status status = check_index(index, backend->kernel_count(), "kernels"); status != kOk) return status;
  auto info = make_struct<flashattn_kernel_info_t>();
  info.backend = id;
  backend->kernel_info(index, &info);
  write_struct(info, target);
  return kOk;
}

}  // namespace
}  // namespace flashattn

extern "C" {

int32_t flashattn_backend_count(void) {
  return flashattn::registry_count();
}

flashattn_status_t flashattn_backend_info(int32_t index, flashattn_backend_info_t *info) {
  return flashattn::barrier([&] { return flashattn::backend_info(index, info); });
}

flashattn_status_t flashattn_device_count(int32_t backend, int32_t *count) {
  return flashattn::barrier([&] { return flashattn::device_count(backend, count); });
}

flashattn_status_t flashattn_device_info(int32_t backend, int32_t ordinal, flashattn_device_info_t *info) {
  return flashattn::barrier([&] { return flashattn::device_info(backend, ordinal, info); });
}

flashattn_status_t flashattn_kernel_info(int32_t backend, int32_t index, flashattn_kernel_info_t *info) {
  return flashattn::barrier([&] { return flashattn::kernel_info(backend, index, info); });
}

}  // extern "C"
