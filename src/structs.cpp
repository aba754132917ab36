// SPDX-License-Identifier: Apache-2.0
#include "src/structs.h"

#include <algorithm>

namespace flashattn {
namespace {

// The init functions have no size parameter, so they may only ever write the struct as it was in version 0.1,
// which every caller has at least. A field appended later reads as zero through the smaller struct_size.
constexpr size_t kOptionsSizeV01 = 120;
constexpr size_t kProblemSizeV01 = 264;
constexpr size_t kCallSizeV01 = 688;
constexpr size_t kCombineArgsSizeV01 = 208;

template <size_t kSize, typename T>
void init_struct(T *target) {
  static_assert(kSize <= sizeof(T));
  if (target == nullptr) return;
  std::memset(target, 0, kSize);
  target->struct_size = kSize;
}

}  // namespace

Status check_struct_size(const char *name, uint32_t size) {
  if (size >= kMinStructSize && size <= kMaxStructSize) return kOk;
  return fail(FLASHATTN_STATUS_STRUCT_SIZE,
              "%s.struct_size is %u; it must be sizeof of the struct (an INIT macro or init function sets "
              "it), and is "
              "never below %u or above %u",
              name, size, kMinStructSize, kMaxStructSize);
}

Status check_struct_tail(const char *name, const void *data, size_t known, uint32_t size) {
  if (size <= known) return kOk;
  const auto *bytes = static_cast<const unsigned char *>(data);
  const auto *end = bytes + size;
  const auto *used = std::find_if(bytes + known, end, [](unsigned char byte) { return byte != 0; });
  if (used == end) return kOk;
  return fail(FLASHATTN_STATUS_NEWER_STRUCT,
              "%s.struct_size is %u and byte %zu is not zero; this library knows the first %zu bytes, the "
              "rest must be "
              "zero",
              name, size, static_cast<size_t>(used - bytes), known);
}

}  // namespace flashattn

extern "C" {

void flashattn_options_init(flashattn_options_t *options) {
  flashattn::init_struct<flashattn::kOptionsSizeV01>(options);
}

void flashattn_problem_init(flashattn_problem_t *problem) {
  flashattn::init_struct<flashattn::kProblemSizeV01>(problem);
}

void flashattn_call_init(flashattn_call_t *call) {
  flashattn::init_struct<flashattn::kCallSizeV01>(call);
}

void flashattn_combine_args_init(flashattn_combine_args_t *args) {
  flashattn::init_struct<flashattn::kCombineArgsSizeV01>(args);
}

}  // extern "C"
