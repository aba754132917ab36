// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/row_attention.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "bindings/ggml/attention.h"
#include "tests/support/dtype.h"

namespace flashattn::ggml {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Every f16, widened once: a cache is read again for each token.
const std::vector<double> &f16_values() {
  static const std::vector<double> kValues = [] {
    std::vector<double> values(1 << 16);
    for (int32_t bits = 0; bits < 1 << 16; ++bits)
      values[bits] = test::f16_to_float(static_cast<uint16_t>(bits));
    return values;
  }();
  return kValues;
}

// Rows of one sequence and head, [count, dim], as f64.
std::vector<double> widen(const flashattn_tensor_t &tensor, int32_t dtype, int64_t sequence, int64_t head,
                          int64_t count, int64_t dim) {
  std::vector<double> rows(count * dim);
  const auto size = static_cast<int64_t>(element_size(dtype));
  for (int64_t i = 0; i < count; ++i) {
    const char *row =
        static_cast<const char *>(tensor.data) +
        (sequence * tensor.stride_batch + head * tensor.stride_head + i * tensor.stride_seq) * size;
    for (int64_t d = 0; d < dim; ++d) {
      const char *element = row + d * size;
      rows[i * dim + d] = dtype == FLASHATTN_DTYPE_F16
                              ? f16_values()[*reinterpret_cast<const uint16_t *>(element)]
                              : test::decode(dtype, element);
    }
  }
  return rows;
}

// What the mask adds to the scores of one row.
std::vector<double> added_to(const Operation &op, int64_t sequence, int64_t head, int64_t i) {
  std::vector<double> added(op.num_keys);
  if (op.mask_batch == 0) return added;
  const auto *mask = static_cast<const uint16_t *>(op.mask.data) +
                     sequence % op.mask_batch * op.mask.stride_batch + head * op.mask.stride_head +
                     i * op.mask.stride_q;
  const double slope =
      op.max_bias > 0 ? alibi_slope(op.max_bias, op.num_heads_q, static_cast<int32_t>(head)) : 1.0;
  for (int64_t j = 0; j < op.num_keys; ++j) added[j] = slope * f16_values()[mask[j]];
  return added;
}

// Turns what the mask adds into scores; keys that are hidden stay at -inf.
void add_products(const Operation &op, const double *q, const double *keys, std::vector<double> *scores) {
  for (int64_t j = 0; j < op.num_keys; ++j) {
    if ((*scores)[j] == -kInfinity) continue;
    double product = 0;
    for (int64_t d = 0; d < op.head_dim; ++d) product += q[d] * keys[j * op.head_dim + d];
    const double scaled = op.scale * product;
    (*scores)[j] += op.softcap > 0 ? op.softcap * std::tanh(scaled / op.softcap) : scaled;
  }
}

// Sequences and KV heads, taken by workers until none is left.
struct Items {
  const Operation *op;
  std::atomic<int64_t> next{0};
};

void run_item(const Operation &op, int64_t sequence, int64_t head_kv) {
  const std::vector<double> keys = widen(op.k, op.dtype_kv, sequence, head_kv, op.num_keys, op.head_dim);
  const std::vector<double> values = widen(op.v, op.dtype_kv, sequence, head_kv, op.num_keys, op.head_dim_v);
  const int64_t group = op.num_heads_q / op.num_heads_kv;
  for (int64_t head = head_kv * group; head < (head_kv + 1) * group; ++head) {
    const std::vector<double> q =
        widen(op.q, FLASHATTN_DTYPE_F32, sequence, head, op.num_queries, op.head_dim);
    for (int64_t i = 0; i < op.num_queries; ++i) {
      std::vector<double> scores = added_to(op, sequence, head, i);
      add_products(op, &q[i * op.head_dim], keys.data(), &scores);
      float *out = static_cast<float *>(op.o.data) + sequence * op.o.stride_batch + head * op.o.stride_head +
                   i * op.o.stride_seq;
      attend_row(op, scores.data(), values.data(), op.sinks == nullptr ? -kInfinity : op.sinks[head], out);
    }
  }
}

void run_items(void *context, int32_t) {
  Items &items = *static_cast<Items *>(context);
  const Operation &op = *items.op;
  const int64_t count = int64_t{op.batch} * op.num_heads_kv;
  for (int64_t item = items.next++; item < count; item = items.next++) {
    run_item(op, item / op.num_heads_kv, item % op.num_heads_kv);
  }
}

}  // namespace

struct Attention::State {
  flashattn_parallel_for_fn parallel_for;
};

Attention::Attention(flashattn_parallel_for_fn parallel_for) : state_(std::make_unique<State>()) {
  state_->parallel_for = parallel_for;
}
Attention::~Attention() = default;

bool Attention::run(const Operation &operation, int32_t num_threads, std::string * /*reason*/) {
  Items items;
  items.op = &operation;
  if (state_->parallel_for == nullptr) {
    run_items(&items, 0);
  } else {
    state_->parallel_for(nullptr, num_threads, run_items, &items);
  }
  return true;
}

uint64_t Attention::num_bands() const {
  return 0;
}
uint64_t Attention::num_biased() const {
  return 0;
}

}  // namespace flashattn::ggml
