// SPDX-License-Identifier: Apache-2.0
// flashattn_combine.
#include "src/barrier.h"
#include "src/combine_check.h"
#include "src/handle.h"

namespace flashattn {
namespace {

Status combine(flashattn_handle *handle, const flashattn_combine_args_t *source, void *stream) {
  if (Status status = check_handle(handle); status != kOk) return status;
  flashattn_combine_args_t args;
  if (Status status = check_combine_args(source, &args); status != kOk) return status;
  if (Status status = check_not_forked(*handle); status != kOk) return status;
  if (args.batch == 0 || args.seqlen_q == 0) return kOk;
  return handle->device->combine(args, stream);
}

}  // namespace
}  // namespace flashattn

extern "C" flashattn_status_t flashattn_combine(flashattn_handle_t *handle,
                                                const flashattn_combine_args_t *args, void *stream) {
  return flashattn::barrier([&] { return flashattn::combine(handle, args, stream); });
}
