// SPDX-License-Identifier: Apache-2.0
// A tensor in memory, contiguous in row-major order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/element.h"

namespace flashattn::cli {

using Shape = std::vector<int64_t>;

// Number of elements, or nothing when the product does not fit int64. A dimension is never negative.
std::optional<int64_t> element_count(const Shape &shape);

// "[2, 3]".
std::string shape_text(const Shape &shape);

class Tensor {
 public:
  Tensor() = default;
  // Zero-filled. Throws InputError when the size in bytes does not fit int64.
  Tensor(Element element, Shape shape);

  Element element() const { return element_; }
  const Shape &shape() const { return shape_; }
  int64_t count() const { return count_; }
  int64_t byte_size() const { return count_ * element_size(element_); }
  void *data() { return bytes_.data(); }
  const void *data() const { return bytes_.data(); }
  float at(int64_t index) const { return load_element(element_, bytes_.data(), index); }

 private:
  Element element_ = Element::kF32;
  Shape shape_;
  int64_t count_ = 0;
  std::vector<std::byte> bytes_;
};

// Every element as float, in order.
std::vector<float> to_floats(const Tensor &tensor);

}  // namespace flashattn::cli
