// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/library.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "tools/cli/error.h"
#include "tools/cli/text.h"

namespace flashattn::cli {

namespace {

constexpr const char *kBackendNames[] = {"auto", "cpu", "cuda", "hip"};

[[noreturn]] void mismatch(const std::string &field, int64_t value, const std::string &rule) {
  throw InputError(field + " is " + std::to_string(value) + "; " + rule);
}

void require_equal(const std::string &field, int64_t value, const std::string &of, int64_t expected) {
  if (value != expected) mismatch(field, value, "it must be " + of + ", " + std::to_string(expected));
}

// What the library cannot see, because the tool passes each of these sizes once.
void require_fit(const Attention &a) {
  require_equal("k: batch", a.k.batch, "Q's", a.q.batch);
  require_equal("v: batch", a.v.batch, "Q's", a.q.batch);
  require_equal("v: number of heads", a.v.heads, "K's", a.k.heads);
  require_equal("v: sequence length", a.v.seqlen, "K's", a.k.seqlen);
  require_equal("k: head dimension", a.k.dim, "Q's", a.q.dim);
  if (a.k.tensor->element() != a.v.tensor->element()) {
    throw InputError(std::string("v: element type is ") + element_name(a.v.tensor->element()) +
                     "; it must be K's, " + element_name(a.k.tensor->element()));
  }
}

flashattn_tensor_t tensor_of(const View &view, const void *data) {
  // The library never writes through an input.
  return {const_cast<void *>(data), view.stride_batch, view.stride_seq, view.stride_head};
}

bool suits(const flashattn_tensor_t &tensor, const flashattn_plan_info_t &info, int64_t element_bytes) {
  const auto is_multiple = [](int64_t bytes, int32_t of) { return of <= 1 || bytes % of == 0; };
  return is_multiple(static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.data)), info.base_alignment) &&
         is_multiple(tensor.stride_batch * element_bytes, info.stride_alignment) &&
         is_multiple(tensor.stride_seq * element_bytes, info.stride_alignment) &&
         is_multiple(tensor.stride_head * element_bytes, info.stride_alignment);
}

}  // namespace

const char *backend_name(int32_t backend) {
  return backend >= 0 && backend < static_cast<int32_t>(std::size(kBackendNames)) ? kBackendNames[backend]
                                                                                  : "unknown";
}

int32_t backend_of_name(const std::string &name) {
  for (size_t i = 0; i < std::size(kBackendNames); ++i) {
    if (name == kBackendNames[i]) return static_cast<int32_t>(i);
  }
  throw InputError("--backend is " + quoted_text(name) + "; known are auto, cpu, cuda and hip");
}

Device::Device(int32_t backend, int32_t device, int32_t threads) {
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = backend;
  options.device = device;
  options.num_threads = threads;
  flashattn_handle_t *handle = nullptr;
  require(flashattn_create(&options, &handle));
  handle_.reset(handle);
  info_.struct_size = sizeof info_;
  require(flashattn_handle_info(handle, &info_));
  memory_ = make_memory(info_.backend, info_.device);
}

int Device::host_threads() const {
  if (info_.num_threads > 0) return info_.num_threads;
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

PreparedCall::PreparedCall(const Device &device, const Attention &a, Layout layout,
                           const PlanOptions &options)
    : device_(device) {
  require_fit(a);
  const auto batch = static_cast<int32_t>(a.q.batch);
  const auto n_q = static_cast<int32_t>(a.q.seqlen);
  const auto n_k = static_cast<int32_t>(a.k.seqlen);
  problem_.dtype_q = element_dtype(a.q.tensor->element());
  problem_.dtype_kv = element_dtype(a.k.tensor->element());
  problem_.dtype_o = element_dtype(options.element_o);
  problem_.dtype_bias = a.bias.tensor != nullptr ? element_dtype(a.bias.tensor->element()) : 0;
  problem_.num_heads_q = static_cast<int32_t>(a.q.heads);
  problem_.num_heads_kv = static_cast<int32_t>(a.k.heads);
  problem_.head_dim = static_cast<int32_t>(a.q.dim);
  problem_.head_dim_v = static_cast<int32_t>(a.v.dim);
  problem_.max_batch = batch;
  problem_.max_seqlen_q = n_q;
  problem_.max_seqlen_kv = n_k;
  if (a.window) problem_.features |= FLASHATTN_FEATURE_WINDOW;
  if (a.alibi.tensor != nullptr) problem_.features |= FLASHATTN_FEATURE_ALIBI;
  if (a.sinks.tensor != nullptr) problem_.features |= FLASHATTN_FEATURE_SINKS;
  if (options.batch_invariant) problem_.flags |= FLASHATTN_FLAG_BATCH_INVARIANT;
  problem_.softmax_scale = a.scale;
  problem_.softcap = a.softcap;
  problem_.causal = a.causal ? 1 : 0;
  problem_.window_left = a.window ? a.window_left : 0;
  problem_.window_right = a.window ? a.window_right : 0;
  problem_.num_splits = options.num_splits;
  if (options.kernel.size() >= sizeof problem_.kernel) {
    throw InputError("--kernel is " + quoted_text(options.kernel) + "; names have fewer than 64 characters");
  }
  std::memcpy(problem_.kernel, options.kernel.c_str(), options.kernel.size());

  flashattn_plan_t *plan = nullptr;
  require(flashattn_plan_create(device.handle(), &problem_, &plan));
  plan_.reset(plan);
  info_.struct_size = sizeof info_;
  require(flashattn_plan_info(plan, &info_));
  for (int32_t i = 0; i < info_.reason_count; ++i) {
    const char *reason = nullptr;
    require(flashattn_plan_reason(plan, i, &reason));
    reasons_.emplace_back(reason);
  }

  call_.batch = batch;
  call_.seqlen_q = n_q;
  call_.seqlen_kv = n_k;
  call_.diag_offset = a.diag_offset;
  call_.q = tensor_of(a.q, place(*a.q.tensor));
  call_.k = tensor_of(a.k, place(*a.k.tensor));
  call_.v = tensor_of(a.v, place(*a.v.tensor));
  if (a.bias.tensor != nullptr) {
    call_.bias = {const_cast<void *>(place(*a.bias.tensor)), a.bias.stride_batch, a.bias.stride_head,
                  a.bias.stride_q, a.bias.stride_kv};
  }
  if (a.alibi.tensor != nullptr) {
    call_.alibi_slopes = {static_cast<const float *>(place(*a.alibi.tensor)), a.alibi.stride_batch, 1};
  }
  if (a.sinks.tensor != nullptr) {
    call_.sinks = {static_cast<const float *>(place(*a.sinks.tensor)), a.sinks.stride_batch, 1};
  }
  o_ = Tensor(options.element_o, like(a.q, layout, a.v.dim));
  call_.o = tensor_of(make_view("o", o_, layout), place(o_));
  lse_ = Tensor(Element::kF32, o_.shape().size() == 4 ? Shape{batch, a.q.heads, n_q} : Shape{a.q.heads, n_q});
  call_.lse = {const_cast<void *>(place(lse_)), a.q.heads * n_q, 1, n_q};

  workspace_ = Buffer(device.memory(), info_.workspace_size);
  require(flashattn_workspace_init(plan, workspace_.data(), info_.workspace_size, nullptr));
}

const void *PreparedCall::place(const Tensor &tensor) {
  const auto size = static_cast<size_t>(tensor.byte_size());
  buffers_.emplace_back(device_.memory(), size);
  device_.memory().upload(buffers_.back().data(), tensor.data(), size);
  return buffers_.back().data();
}

const char *PreparedCall::kernel() const {
  const int64_t size_q = element_size(o_.element());
  const auto bytes = [](int32_t dtype) { return int64_t{dtype == FLASHATTN_DTYPE_F32 ? 4 : 2}; };
  const bool fast = suits(call_.q, info_, bytes(problem_.dtype_q)) &&
                    suits(call_.k, info_, bytes(problem_.dtype_kv)) &&
                    suits(call_.v, info_, bytes(problem_.dtype_kv)) && suits(call_.o, info_, size_q);
  return fast ? info_.kernel : info_.generic_kernel;
}

void PreparedCall::run() {
  require(flashattn_forward(plan_.get(), &call_, workspace_.data(), info_.workspace_size, nullptr));
}

void PreparedCall::synchronize() {
  device_.memory().synchronize();
}

void PreparedCall::run_and_wait(int repeats) {
  for (int i = 0; i < repeats; ++i) run();
  synchronize();
}

Tensor PreparedCall::o() const {
  Tensor out = o_;
  device_.memory().download(out.data(), call_.o.data, static_cast<size_t>(out.byte_size()));
  return out;
}

Tensor PreparedCall::lse() const {
  Tensor out = lse_;
  device_.memory().download(out.data(), call_.lse.data, static_cast<size_t>(out.byte_size()));
  return out;
}

}  // namespace flashattn::cli
