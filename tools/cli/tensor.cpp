// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/tensor.h"

#include <limits>
#include <utility>

#include "tools/cli/error.h"

namespace flashattn::cli {

std::optional<int64_t> element_count(const Shape &shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count)) return std::nullopt;
  }
  return count;
}

std::string shape_text(const Shape &shape) {
  std::string text = "[";
  for (const int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

Tensor::Tensor(Element element, Shape shape) : element_(element), shape_(std::move(shape)) {
  const std::optional<int64_t> count = element_count(shape_);
  if (!count || *count > std::numeric_limits<int64_t>::max() / element_size(element)) {
    throw InputError("shape is " + shape_text(shape_) + "; its size in bytes does not fit 63 bits");
  }
  count_ = *count;
  bytes_.resize(static_cast<size_t>(byte_size()));
}

std::vector<float> to_floats(const Tensor &tensor) {
  std::vector<float> floats(static_cast<size_t>(tensor.count()));
  for (int64_t i = 0; i < tensor.count(); ++i) floats[i] = tensor.at(i);
  return floats;
}

}  // namespace flashattn::cli
