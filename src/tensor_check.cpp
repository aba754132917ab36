// SPDX-License-Identifier: Apache-2.0
#include "src/tensor_check.h"

#include <cinttypes>

#include "src/extent.h"

namespace flashattn {
namespace {

bool is_empty(const StridedArray &array) {
  for (int i = 0; i < array.dimension_count; ++i) {
    if (array.dimensions[i].extent == 0) return true;
  }
  return false;
}

Status check_signs(const StridedArray &array) {
  for (int i = 0; i < array.dimension_count; ++i) {
    const Dimension &dimension = array.dimensions[i];
    if (dimension.stride < 0) {
      return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "%s.%s is %" PRId64 "; no stride may be negative",
                  array.name, dimension.name, dimension.stride);
    }
  }
  return kOk;
}

// Two rows of an output share memory for certain when a stride is shorter than a row, or when one stride is a
// multiple of another that the other's extent reaches: rows (k, 0) and (0, 1) are then the same.
Status check_output_rows(const StridedArray &array) {
  for (int i = 0; i < array.dimension_count; ++i) {
    const Dimension &dimension = array.dimensions[i];
    if (dimension.extent > 1 && dimension.stride < array.row) {
      return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
                  "%s.%s is %" PRId64 "; rows of an output are %" PRId64
                  " elements and must not overlap (extent %" PRId64 ")",
                  array.name, dimension.name, dimension.stride, array.row, dimension.extent);
    }
  }
  // From the outermost, so that of two equal strides the outer dimension's is named.
  for (int j = 0; j < array.dimension_count; ++j) {
    for (int i = array.dimension_count - 1; i >= 0; --i) {
      const Dimension &small = array.dimensions[i];
      const Dimension &large = array.dimensions[j];
      if (i == j || small.extent <= 1 || large.extent <= 1) continue;
      if (large.stride % small.stride == 0 && large.stride / small.stride < small.extent) {
        return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
                    "%s.%s is %" PRId64 "; rows of an output must not overlap, and %s is %" PRId64
                    " with extent %" PRId64,
                    array.name, large.name, large.stride, small.name, small.stride, small.extent);
      }
    }
  }
  return kOk;
}

Status check_last_byte(const StridedArray &array) {
  int64_t elements = array.row;
  bool fits = true;
  for (int i = 0; i < array.dimension_count && fits; ++i) {
    fits = add_dimension(array.dimensions[i].extent, array.dimensions[i].stride, &elements);
  }
  int64_t bytes = 0;
  if (fits && !__builtin_mul_overflow(elements, array.element_size, &bytes)) return kOk;
  const Dimension *widest = array.dimensions;
  for (int i = 1; i < array.dimension_count; ++i) {
    if (array.dimensions[i].stride > widest->stride) widest = array.dimensions + i;
  }
  return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
              "%s.%s is %" PRId64 "; with the extents of this call the array's end in bytes leaves int64",
              array.name, widest->name, widest->stride);
}

}  // namespace

Status check_array(const StridedArray &array) {
  if (Status status = check_signs(array); status != kOk) return status;
  if (is_empty(array)) return kOk;
  if (array.data == nullptr) return fail(FLASHATTN_STATUS_NULL_POINTER, "%s.data is NULL", array.name);
  if (reinterpret_cast<uintptr_t>(array.data) % static_cast<uintptr_t>(array.element_size) != 0) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
                "%s.data is %p; it must be aligned to its element, %" PRId64 " bytes", array.name, array.data,
                array.element_size);
  }
  if (array.access == Access::kOutput) {
    if (Status status = check_output_rows(array); status != kOk) return status;
  }
  return check_last_byte(array);
}

}  // namespace flashattn
