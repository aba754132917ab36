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

double element(int32_t dtype, const void *data, int64_t index) {
  return test::decode(dtype,
                      static_cast<const char *>(data) + index * static_cast<int64_t>(element_size(dtype)));
}

// Rows of the op, taken by workers until none is left.
struct Rows {
  const Operation *op;
  std::atomic<int64_t> next{0};
};

double score(const Operation &op, int64_t sequence, int64_t head, int64_t i, int64_t j) {
  const int64_t head_kv = head / (op.num_heads_q / op.num_heads_kv);
  const int64_t q = sequence * op.q.stride_batch + head * op.q.stride_head + i * op.q.stride_seq;
  const int64_t k = sequence * op.k.stride_batch + head_kv * op.k.stride_head + j * op.k.stride_seq;
  double added = 0;
  if (op.mask_batch != 0) {
    const int64_t mask = sequence % op.mask_batch * op.mask.stride_batch + head * op.mask.stride_head +
                         i * op.mask.stride_q + j * op.mask.stride_kv;
    added = element(FLASHATTN_DTYPE_F16, op.mask.data, mask);
    if (added == -kInfinity) return added;
    if (op.max_bias > 0) added *= alibi_slope(op.max_bias, op.num_heads_q, static_cast<int32_t>(head));
  }
  double product = 0;
  for (int64_t d = 0; d < op.head_dim; ++d) {
    product += static_cast<double>(static_cast<const float *>(op.q.data)[q + d]) *
               element(op.dtype_kv, op.k.data, k + d);
  }
  const double scaled = op.scale * product;
  return (op.softcap > 0 ? op.softcap * std::tanh(scaled / op.softcap) : scaled) + added;
}

void run_rows(void *context, int32_t) {
  Rows &rows = *static_cast<Rows *>(context);
  const Operation &op = *rows.op;
  const int64_t per_sequence = int64_t{op.num_heads_q} * op.num_queries;
  std::vector<double> scores(op.num_keys);
  for (int64_t row = rows.next++; row < op.batch * per_sequence; row = rows.next++) {
    const int64_t sequence = row / per_sequence;
    const int64_t head = row % per_sequence / op.num_queries;
    const int64_t i = row % op.num_queries;
    for (int64_t j = 0; j < op.num_keys; ++j) scores[j] = score(op, sequence, head, i, j);
    auto *out = static_cast<float *>(op.o.data) + sequence * op.o.stride_batch + head * op.o.stride_head +
                i * op.o.stride_seq;
    attend_row(op, scores.data(), Values(op, sequence, head / (op.num_heads_q / op.num_heads_kv)),
               op.sinks == nullptr ? -kInfinity : op.sinks[head], out);
  }
}

}  // namespace

Values::Values(const Operation &op, int64_t sequence, int64_t head_kv)
    : op_(op), offset_(sequence * op.v.stride_batch + head_kv * op.v.stride_head) {}

double Values::at(int64_t key, int64_t dim) const {
  return element(op_.dtype_kv, op_.v.data, offset_ + key * op_.v.stride_seq + dim);
}

struct Attention::State {
  flashattn_parallel_for_fn parallel_for;
};

Attention::Attention(flashattn_parallel_for_fn parallel_for) : state_(std::make_unique<State>()) {
  state_->parallel_for = parallel_for;
}
Attention::~Attention() = default;

bool Attention::run(const Operation &operation, int32_t num_threads, std::string *) {
  Rows rows;
  rows.op = &operation;
  if (state_->parallel_for == nullptr) {
    run_rows(&rows, 0);
  } else {
    state_->parallel_for(nullptr, num_threads, run_rows, &rows);
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
