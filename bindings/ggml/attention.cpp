// SPDX-License-Identifier: Apache-2.0
#include "bindings/ggml/attention.h"

#include <cmath>
#include <limits>
#include <vector>

#include "bindings/ggml/mask.h"

namespace flashattn::ggml {
namespace {

struct HandleDelete {
  void operator()(flashattn_handle_t *handle) const { flashattn_destroy(handle); }
};
using HandlePointer = std::unique_ptr<flashattn_handle_t, HandleDelete>;

// An engine uses one number of threads for prompts and maybe another for tokens; a handle has one.
struct ThreadedHandle {
  int32_t num_threads;
  HandlePointer handle;
};

// Maxima in powers of two, so that a growing cache needs few plans.
int32_t round_up(int32_t value) {
  int32_t power = 1;
  while (power < value && power < (1 << 30)) power *= 2;
  return power < value ? value : power;
}

void *advance(void *data, int64_t elements, size_t size) {
  return data == nullptr ? nullptr : static_cast<char *>(data) + elements * static_cast<int64_t>(size);
}

// f16 to f32: exact for every value a mask can hold, infinities included.
float widen(uint16_t half) {
  const bool negative = (half & 0x8000) != 0;
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  float value = 0;
  if (exponent == 31) {
    value = fraction != 0 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  return negative ? -value : value;
}

}  // namespace

struct Attention::State {
  flashattn_parallel_for_fn parallel_for = nullptr;
  std::vector<ThreadedHandle> handles;
  flashattn_handle_t *handle = nullptr;  // of the operation that runs
  std::vector<MaskSegment> segments;
  std::vector<float> slopes;  // of the ALiBi operation that runs
  std::vector<float> bias;    // slope times mask of one head
  uint64_t num_bands = 0;
  uint64_t num_biased = 0;

  bool open(int32_t num_threads, std::string *reason);
  bool run_sequence(const Operation &op, int32_t sequence, std::string *reason);
  bool run_segment(const Operation &op, int32_t sequence, const MaskSegment &segment, std::string *reason);
  bool run_alibi_heads(const Operation &op, int32_t sequence, const MaskSegment &segment,
                       const flashattn_problem_t &problem, const flashattn_call_t &call, std::string *reason);
  bool attend(const flashattn_problem_t &problem, const flashattn_call_t &call, std::string *reason);
};

namespace {

// The whole of it, as a mask that says nothing would have it.
MaskSegment all_of(const Operation &op, bool band) {
  MaskSegment segment;
  segment.num_rows = op.num_queries;
  segment.num_keys = op.num_keys;
  segment.band = band;
  return segment;
}

flashattn_problem_t make_problem(const Operation &op) {
  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  problem.dtype_q = FLASHATTN_DTYPE_F32;
  problem.dtype_kv = op.dtype_kv;
  problem.num_heads_q = op.num_heads_q;
  problem.num_heads_kv = op.num_heads_kv;
  problem.head_dim = op.head_dim;
  problem.head_dim_v = op.head_dim_v;
  problem.max_batch = 1;
  problem.max_seqlen_q = round_up(op.num_queries);
  problem.max_seqlen_kv = round_up(op.num_keys);
  problem.softmax_scale = op.scale;
  problem.softcap = op.softcap;
  if (op.sinks != nullptr) problem.features |= FLASHATTN_FEATURE_SINKS;
  return problem;
}

flashattn_tensor_t rows_of(const flashattn_tensor_t &tensor, int64_t sequence, int64_t first, size_t size) {
  flashattn_tensor_t rows = tensor;
  rows.data = advance(tensor.data, sequence * tensor.stride_batch + first * tensor.stride_seq, size);
  return rows;
}

flashattn_bias_t mask_of(const Operation &op, int32_t sequence, const MaskSegment &segment) {
  flashattn_bias_t mask = op.mask;
  const int64_t offset = sequence % op.mask_batch * mask.stride_batch + segment.first_row * mask.stride_q +
                         segment.first_key * mask.stride_kv;
  mask.data = advance(mask.data, offset, sizeof(uint16_t));
  return mask;
}

flashattn_call_t make_call(const Operation &op, int32_t sequence, const MaskSegment &segment) {
  const size_t size_kv = element_size(op.dtype_kv);
  flashattn_call_t call = FLASHATTN_CALL_INIT;
  call.batch = 1;
  call.seqlen_q = segment.num_rows;
  call.seqlen_kv = segment.num_keys;
  call.q = rows_of(op.q, sequence, segment.first_row, sizeof(float));
  call.k = rows_of(op.k, sequence, segment.first_key, size_kv);
  call.v = rows_of(op.v, sequence, segment.first_key, size_kv);
  call.o = rows_of(op.o, sequence, segment.first_row, sizeof(float));
  call.sinks = {op.sinks, 0, 1};
  return call;
}

}  // namespace

bool Attention::State::open(int32_t num_threads, std::string *reason) {
  for (const ThreadedHandle &entry : handles) {
    if (entry.num_threads == num_threads) {
      handle = entry.handle.get();
      return true;
    }
  }
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CPU;
  options.num_threads = num_threads;
  options.parallel_for = parallel_for;
  flashattn_handle_t *opened = nullptr;
  if (flashattn_create(&options, &opened) != FLASHATTN_STATUS_OK) {
    *reason = flashattn_last_error();
    return false;
  }
  handles.push_back({num_threads, HandlePointer(opened)});
  handle = opened;
  return true;
}

bool Attention::State::attend(const flashattn_problem_t &problem, const flashattn_call_t &call,
                              std::string *reason) {
  if (flashattn_attention(handle, &problem, &call, nullptr) == FLASHATTN_STATUS_OK) return true;
  *reason = flashattn_last_error();
  return false;
}

// A mask that is no band, with ALiBi: slope * mask differs from head to head, so each head has its own bias.
bool Attention::State::run_alibi_heads(const Operation &op, int32_t sequence, const MaskSegment &segment,
                                       const flashattn_problem_t &problem, const flashattn_call_t &call,
                                       std::string *reason) {
  flashattn_problem_t head_problem = problem;
  head_problem.num_heads_q = 1;
  head_problem.num_heads_kv = 1;
  head_problem.dtype_bias = FLASHATTN_DTYPE_F32;
  const flashattn_bias_t mask = mask_of(op, sequence, segment);
  bias.resize(static_cast<size_t>(segment.num_rows) * segment.num_keys);
  for (int32_t head = 0; head < op.num_heads_q; ++head) {
    const float slope = slopes[head];
    const auto *elements = static_cast<const uint16_t *>(mask.data) + head * mask.stride_head;
    for (int64_t i = 0; i < segment.num_rows; ++i) {
      for (int64_t j = 0; j < segment.num_keys; ++j) {
        bias[i * segment.num_keys + j] = slope * widen(elements[i * mask.stride_q + j]);
      }
    }
    flashattn_call_t head_call = call;
    const int64_t head_kv = head / (op.num_heads_q / op.num_heads_kv);
    const size_t size_kv = element_size(op.dtype_kv);
    head_call.q.data = advance(call.q.data, head * call.q.stride_head, sizeof(float));
    head_call.k.data = advance(call.k.data, head_kv * call.k.stride_head, size_kv);
    head_call.v.data = advance(call.v.data, head_kv * call.v.stride_head, size_kv);
    head_call.o.data = advance(call.o.data, head * call.o.stride_head, sizeof(float));
    if (op.sinks != nullptr) head_call.sinks.data = op.sinks + head;
    head_call.bias = {bias.data(), 0, 0, segment.num_keys, 1};
    if (!attend(head_problem, head_call, reason)) return false;
  }
  return true;
}

bool Attention::State::run_segment(const Operation &op, int32_t sequence, const MaskSegment &segment,
                                   std::string *reason) {
  flashattn_problem_t problem = make_problem(op);
  flashattn_call_t call = make_call(op, sequence, segment);
  if (!segment.band) {
    ++num_biased;
    if (op.max_bias > 0) return run_alibi_heads(op, sequence, segment, problem, call, reason);
    problem.dtype_bias = FLASHATTN_DTYPE_F16;
    call.bias = mask_of(op, sequence, segment);
    return attend(problem, call, reason);
  }
  ++num_bands;
  problem.causal = segment.causal ? 1 : 0;
  if (segment.window > 0) {
    problem.features |= FLASHATTN_FEATURE_WINDOW;
    problem.window_left = segment.window - 1;
  }
  if (op.max_bias > 0) {
    problem.features |= FLASHATTN_FEATURE_ALIBI;
    call.alibi_slopes = {slopes.data(), 0, 1};
  }
  return attend(problem, call, reason);
}

bool Attention::State::run_sequence(const Operation &op, int32_t sequence, std::string *reason) {
  const bool masked = op.mask_batch != 0;
  if (!masked || op.mask_per_head) return run_segment(op, sequence, all_of(op, !masked), reason);
  const auto *mask =
      static_cast<const uint16_t *>(op.mask.data) + sequence % op.mask_batch * op.mask.stride_batch;
  read_mask_segments(mask, op.mask.stride_q, op.num_queries, op.num_keys,
                     op.max_bias > 0 ? MaskValues::kAlibi : MaskValues::kZero, &segments);
  for (const MaskSegment &segment : segments) {
    if (!run_segment(op, sequence, segment, reason)) return false;
  }
  return true;
}

Attention::Attention(flashattn_parallel_for_fn parallel_for) : state_(std::make_unique<State>()) {
  state_->parallel_for = parallel_for;
}

Attention::~Attention() = default;

bool Attention::run(const Operation &operation, int32_t num_threads, std::string *reason) {
  if (!state_->open(num_threads, reason)) return false;
  state_->slopes.clear();
  for (int32_t head = 0; operation.max_bias > 0 && head < operation.num_heads_q; ++head) {
    state_->slopes.push_back(alibi_slope(operation.max_bias, operation.num_heads_q, head));
  }
  for (int32_t sequence = 0; sequence < operation.batch; ++sequence) {
    if (!state_->run_sequence(operation, sequence, reason)) return false;
  }
  return true;
}

uint64_t Attention::num_bands() const {
  return state_->num_bands;
}
uint64_t Attention::num_biased() const {
  return state_->num_biased;
}

}  // namespace flashattn::ggml
