// SPDX-License-Identifier: Apache-2.0
// An operation through libflashattn.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bindings/ggml/operation.h"
#include "flashattn.h"

namespace flashattn::ggml {

// For one caller at a time, as a ggml_backend is.
class Attention {
 public:
  // parallel_for may be null: the library's own threads.
  explicit Attention(flashattn_parallel_for_fn parallel_for);
  ~Attention();
  Attention(const Attention &) = delete;
  Attention &operator=(const Attention &) = delete;

  // Computes operation on up to num_threads >= 1 threads. False with the reason when that fails.
  bool run(const Operation &operation, int32_t num_threads, std::string *reason);

  // Parts of operations so far by how their mask was read: as lengths, causality and window, or as a bias.
  uint64_t num_bands() const;
  uint64_t num_biased() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace flashattn::ggml
