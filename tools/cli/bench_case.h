// SPDX-License-Identifier: Apache-2.0
// One line of `flashattn bench`: sizes, element types and features, its tensors and its work.
#pragma once

#include <cstdint>
#include <string>

#include "tools/cli/attention.h"

namespace flashattn::cli {

struct BenchCase {
  int64_t batch = 1;
  int64_t heads_q = 1;
  int64_t heads_kv = 1;
  int64_t seqlen_q = 1;
  int64_t seqlen_kv = 1;
  int64_t dim = 1;
  int64_t dim_v = 1;
  Element element_q = Element::kF32;
  Element element_kv = Element::kF32;
  bool causal = false;
  bool window = false;
  int32_t window_left = -1;
  int32_t window_right = -1;
  float softcap = 0;
  bool alibi = false;
  bool sinks = false;
  bool bias = false;
  Element element_bias = Element::kF32;
};

// "f32 1x4x4096x128, causal": element types, batch x heads x queries x dimension, what differs from plain.
std::string case_text(const BenchCase &c);

// Bytes of Q, K, V and O.
double tensor_bytes(const BenchCase &c);

// The tensors of a case, uniform in [-0.9, 1.1), and the problem over them.
class BenchProblem {
 public:
  explicit BenchProblem(const BenchCase &c);
  BenchProblem(const BenchProblem &) = delete;
  BenchProblem &operator=(const BenchProblem &) = delete;

  const Attention &attention() const { return attention_; }

 private:
  Tensor q_, k_, v_, bias_, alibi_, sinks_;
  Attention attention_;
};

// Floating-point operations of the two products: 2 (D + D_v) for every visible pair of query and key.
double attention_flop(const Attention &attention);

}  // namespace flashattn::cli
