// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/bench_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "tools/cli/error.h"
#include "tools/cli/host_memory.h"
#include "tools/cli/text.h"

namespace flashattn::cli {

namespace {

void store(Element element, float value, void *data, int64_t index) {
  if (element == Element::kF32) {
    static_cast<float *>(data)[index] = value;
  } else if (element == Element::kU8) {
    static_cast<uint8_t *>(data)[index] = value > 0 ? 1 : 0;
  } else {
    static_cast<uint16_t *>(data)[index] =
        element == Element::kF16 ? float_to_half(value) : float_to_bfloat16(value);
  }
}

// The mean is not zero, so that P V does not average out.
Tensor random_tensor(Element element, Shape shape, uint32_t seed) {
  Tensor tensor(element, std::move(shape));
  std::minstd_rand random(seed);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    store(element, static_cast<float>(random()) / 0x1p30F - 0.9F, tensor.data(), i);
  }
  return tensor;
}

// 2^(-8 (h + 1) / heads), the slopes of the ALiBi paper (Press et al. 2022, section 3).
Tensor slopes(int64_t heads) {
  Tensor tensor(Element::kF32, {heads});
  for (int64_t h = 0; h < heads; ++h) {
    store(Element::kF32, std::exp2(-8 * static_cast<float>(h + 1) / static_cast<float>(heads)), tensor.data(),
          h);
  }
  return tensor;
}

}  // namespace

std::string case_text(const BenchCase &c) {
  const auto number = [](int64_t n) { return std::to_string(n); };
  std::string text = element_name(c.element_q);
  if (c.element_kv != c.element_q) text += std::string("/") + element_name(c.element_kv);
  text += " " + number(c.batch) + "x" + number(c.heads_q) +
          (c.heads_kv == c.heads_q ? "" : "/" + number(c.heads_kv)) + "x" + number(c.seqlen_q) +
          (c.seqlen_kv == c.seqlen_q ? "" : "/" + number(c.seqlen_kv)) + "x" + number(c.dim) +
          (c.dim_v == c.dim ? "" : "/" + number(c.dim_v));
  if (c.causal) text += ", causal";
  if (c.window) text += ", window " + number(c.window_left) + "," + number(c.window_right);
  if (c.softcap != 0) text += ", softcap";
  if (c.alibi) text += ", alibi";
  if (c.sinks) text += ", sinks";
  if (c.bias) text += std::string(", bias ") + element_name(c.element_bias);
  return text;
}

double tensor_bytes(const BenchCase &c) {
  const auto d = [](int64_t n) { return static_cast<double>(n); };
  const double rows_q = d(c.batch) * d(c.heads_q) * d(c.seqlen_q);
  const double rows_kv = d(c.batch) * d(c.heads_kv) * d(c.seqlen_kv);
  return d(c.dim + c.dim_v) *
         (rows_q * d(element_size(c.element_q)) + rows_kv * d(element_size(c.element_kv)));
}

BenchProblem::BenchProblem(const BenchCase &c) {
  const double bias_bytes = c.bias ? static_cast<double>(c.seqlen_q) * static_cast<double>(c.seqlen_kv) *
                                         static_cast<double>(element_size(c.element_bias))
                                   : 0;
  // Here and on the device, which may be this memory too.
  const double needed = 2 * (tensor_bytes(c) + bias_bytes);
  const auto available = static_cast<double>(available_memory());
  if (needed > available) {
    throw Failure(case_text(c) + " takes " + bytes_text(needed) + "; " + bytes_text(available) +
                  " of memory are available");
  }
  q_ = random_tensor(c.element_q, {c.batch, c.seqlen_q, c.heads_q, c.dim}, 1);
  k_ = random_tensor(c.element_kv, {c.batch, c.seqlen_kv, c.heads_kv, c.dim}, 2);
  v_ = random_tensor(c.element_kv, {c.batch, c.seqlen_kv, c.heads_kv, c.dim_v}, 3);
  attention_.q = make_view("q", q_, Layout::kBshd);
  attention_.k = make_view("k", k_, Layout::kBshd);
  attention_.v = make_view("v", v_, Layout::kBshd);
  if (c.bias) {
    bias_ = random_tensor(c.element_bias, {c.seqlen_q, c.seqlen_kv}, 4);
    attention_.bias = {&bias_, 0, 0, c.seqlen_kv, 1};
  }
  if (c.alibi) {
    alibi_ = slopes(c.heads_q);
    attention_.alibi = {&alibi_, 0};
  }
  if (c.sinks) {
    sinks_ = random_tensor(Element::kF32, {c.heads_q}, 5);
    attention_.sinks = {&sinks_, 0};
  }
  attention_.softcap = c.softcap;
  attention_.causal = c.causal;
  attention_.window = c.window;
  attention_.window_left = c.window_left;
  attention_.window_right = c.window_right;
}

double attention_flop(const Attention &a) {
  double pairs = 0;
  for (int64_t i = 0; i < a.q.seqlen; ++i) {
    const auto [first, last] = a.visible(i);
    const int64_t seen = std::min(last, a.k.seqlen) - std::min(first, a.k.seqlen);
    pairs += static_cast<double>(std::max<int64_t>(seen, 0));
  }
  return 2 * static_cast<double>(a.q.dim + a.v.dim) * static_cast<double>(a.q.batch * a.q.heads) * pairs;
}

}  // namespace flashattn::cli
