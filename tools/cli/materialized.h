// SPDX-License-Identifier: Apache-2.0
// Attention the way it is written without a fused kernel: the whole score matrix is stored, and passed over
// three times.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/cli/attention.h"

namespace flashattn::cli {

// float32 throughout, plain C++ that the compiler vectorises, one (batch, head) pair a task. All n_q * n_k
// scores are computed, the mask is applied to the stored matrix.
class Materialized {
 public:
  // Allocates the score matrix [batch, heads, n_q, n_k] and O; may throw std::bad_alloc. problem must outlive
  // this.
  Materialized(const Attention &problem, int threads);

  void run();

  uint64_t score_bytes() const { return scores_.size() * sizeof(float); }
  // [batch, heads, n_q, head_dim_v], after run().
  const std::vector<float> &o() const { return o_; }

 private:
  const Attention &problem_;
  int threads_;
  std::vector<float> scores_;
  std::vector<float> o_;
};

// Whether the score matrix of problem fits in half of the machine's memory.
bool materialized_fits(const Attention &problem);

}  // namespace flashattn::cli
