// SPDX-License-Identifier: Apache-2.0
// Checks of one strided array, shared by calls and combine arguments.
#pragma once

#include <cstdint>

#include "src/status.h"

namespace flashattn {

// One dimension: the stride's name as the caller wrote it, its extent and the stride.
struct Dimension {
  const char *name;
  int64_t extent;
  int64_t stride;
};

enum class Access { kInput, kOutput };

// An array as the caller gave it: `row` contiguous elements at every index of the dimensions.
struct StridedArray {
  const char *name;  // "q" for q.data and q.stride_*
  const void *data;
  int64_t element_size;  // bytes
  int64_t row;           // contiguous elements
  const Dimension *dimensions;
  int dimension_count;
  Access access;
};

// Strides not negative; outputs without two rows in one place, where that is plain from the strides; base
// aligned to the element; the last byte's offset within int64; data not NULL unless the array is empty.
Status check_array(const StridedArray &array);

}  // namespace flashattn
