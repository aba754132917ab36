// SPDX-License-Identifier: Apache-2.0
#include "src/options.h"

#include <cinttypes>

#include "backends/registry.h"
#include "src/field_check.h"
#include "src/structs.h"

namespace flashattn {

Status check_options(const flashattn_options_t *source, const Environment &environment,
                     flashattn_options_t *options) {
  *options = make_struct<flashattn_options_t>();
  if (source != nullptr) {
    if (Status status = read_struct("options", source, options); status != kOk) return status;
  }
  if (options->backend == FLASHATTN_BACKEND_AUTO) {
    options->backend = environment.backend;
  } else if (registry_find(options->backend) == nullptr) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
                "backend is %d; it must be FLASHATTN_BACKEND_AUTO (0), _CPU (1), _CUDA (2) or _HIP (3)",
                options->backend);
  }
  if (options->device < 0) {
    return fail(FLASHATTN_STATUS_INVALID_DEVICE, "device is %d; it must not be negative", options->device);
  }
  if (options->num_threads < 0) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "num_threads is %d; it must not be negative",
                options->num_threads);
  }
  if ((options->flags & ~FLASHATTN_OPTION_VALIDATE) != 0) {
    return fail(FLASHATTN_STATUS_UNSUPPORTED,
                "flags is 0x%" PRIx64 "; this version knows the bits 0x%" PRIx64 " only", options->flags,
                FLASHATTN_OPTION_VALIDATE);
  }
  if (options->context != nullptr &&
      (options->backend == FLASHATTN_BACKEND_AUTO || options->backend == FLASHATTN_BACKEND_CPU)) {
    return fail(
        FLASHATTN_STATUS_INVALID_ARGUMENT,
        "context is %p; it must be NULL unless backend names the GPU backend it belongs to (backend is %d)",
        options->context, options->backend);
  }
  if ((options->alloc == nullptr) != (options->free == nullptr)) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "%s is NULL; alloc and free must be set together",
                options->alloc == nullptr ? "alloc" : "free");
  }
  return check_reserved_words(options->reserved);
}

}  // namespace flashattn
