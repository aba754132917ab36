// SPDX-License-Identifier: Apache-2.0
// Random problems for the tests of the tool's own attention.
#pragma once

#include <cstring>
#include <random>

#include "tools/cli/attention.h"

// Fresh numbers with a mean that is not zero.
inline flashattn::cli::Tensor random_tensor(std::mt19937 &generator, flashattn::cli::Element element,
                                            const flashattn::cli::Shape &shape) {
  using namespace flashattn::cli;
  std::normal_distribution<float> normal(0.3F, 1.0F);
  Tensor tensor(element, shape);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const float value = normal(generator);
    auto *at = static_cast<unsigned char *>(tensor.data()) + i * element_size(element);
    if (element == Element::kF32) {
      std::memcpy(at, &value, sizeof value);
    } else if (element == Element::kU8) {
      *at = value > 0 ? 1 : 0;
    } else {
      const uint16_t bits = element == Element::kF16 ? float_to_half(value) : float_to_bfloat16(value);
      std::memcpy(at, &bits, sizeof bits);
    }
  }
  return tensor;
}
