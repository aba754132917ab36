// SPDX-License-Identifier: Apache-2.0
#include "tests/support/session.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <stdexcept>

#include "tests/support/random.h"

namespace flashattn::test {
namespace {

struct PlanDeleter {
  void operator()(flashattn_plan_t *plan) const { flashattn_plan_destroy(plan); }
};
using Plan = std::unique_ptr<flashattn_plan_t, PlanDeleter>;

Outcome failed(const std::string &what) {
  return {Outcome::kFailed, what};
}

Outcome failed(const std::string &what, flashattn_status_t status) {
  return failed(what + ": " + flashattn_status_string(status) + ": " + flashattn_last_error());
}

// A refusal has to name the field it is about.
bool names_a_field(const std::string &reason) {
  static const char *const kFields[] = {
      "dtype_q",       "dtype_kv",     "dtype_o",    "dtype_bias",    "layout_q",      "layout_kv",
      "num_heads_q",   "num_heads_kv", "head_dim",   "head_dim_v",    "max_batch",     "max_seqlen_q",
      "max_seqlen_kv", "page_size",    "features",   "flags",         "softmax_scale", "softcap",
      "causal",        "window",       "num_splits", "precision_f32", "alibi",         "sinks",
      "seqused",       "diag_offset",  "bias",       "kernel"};
  return std::any_of(std::begin(kFields), std::end(kFields),
                     [&reason](const char *field) { return reason.find(field) != std::string::npos; });
}

// A workspace of exactly the size and alignment that the plan asks for, and not better.
class Workspace {
 public:
  Workspace(Device &device, const flashattn_plan_info_t &info)
      : size_(info.workspace_size), buffer_(device, info.workspace_size, info.workspace_alignment % 256) {
    buffer_.upload();
  }
  void *data() { return size_ == 0 ? nullptr : buffer_.device_data(); }
  size_t size() const { return size_; }
  std::string check() {
    buffer_.download();
    return buffer_.unexpected_write(std::vector<uint8_t>(size_, 1), 1);
  }

 private:
  size_t size_;
  GuardedBuffer buffer_;
};

}  // namespace

Session &Session::instance() {
  static Session session;
  return session;
}

Session::Session() {
  filter("", "");
}

Session::~Session() {
  for (const auto &[key, handle] : handles_) flashattn_destroy(handle);
}

void Session::filter(const std::string &backend, const std::string &kernel) {
  kernels_.clear();
  unavailable_.clear();
  for (int32_t n = 0; n < flashattn_backend_count(); ++n) {
    flashattn_backend_info_t info{};
    info.struct_size = sizeof(info);
    if (flashattn_backend_info(n, &info) != FLASHATTN_STATUS_OK)
      throw std::runtime_error(flashattn_last_error());
    if (!backend.empty() && backend != info.name) continue;
    if (info.status != FLASHATTN_STATUS_OK) {
      unavailable_.push_back(std::string(info.name) + ": " + info.reason);
      continue;
    }
    if (kernel.empty()) kernels_.push_back({info.backend, "", true});
    for (int32_t k = 0; k < info.kernel_count; ++k) {
      flashattn_kernel_info_t found{};
      found.struct_size = sizeof(found);
      if (flashattn_kernel_info(info.backend, k, &found) != FLASHATTN_STATUS_OK) {
        throw std::runtime_error(flashattn_last_error());
      }
      if (!kernel.empty() && kernel != found.name) continue;
      if (found.available == 0) {
        unavailable_.push_back(std::string(found.name) + ": " + found.reason);
      } else {
        kernels_.push_back({info.backend, found.name, k == info.kernel_count - 1});
      }
    }
  }
}

Device &Session::device(int32_t backend) {
  std::unique_ptr<Device> &device = devices_[backend];
  if (!device) device = make_device(backend);
  if (!device)
    throw std::runtime_error("backend " + std::to_string(backend) +
                             " can be opened, but tests/support "
                             "has no Device for its memory");
  return *device;
}

flashattn_handle_t *Session::handle(int32_t backend, int32_t threads) {
  flashattn_handle_t *&handle = handles_[{backend, backend == FLASHATTN_BACKEND_CPU ? threads : 0}];
  if (handle == nullptr) {
    flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
    options.backend = backend;
    options.num_threads = backend == FLASHATTN_BACKEND_CPU ? threads : 0;
    if (flashattn_create(&options, &handle) != FLASHATTN_STATUS_OK) {
      throw std::runtime_error(std::string("flashattn_create: ") + flashattn_last_error());
    }
  }
  return handle;
}

Tally &Session::count(const Kernel &kernel, const Outcome &outcome) {
  Tally &tally = tallies_[{kernel.backend, kernel.name}];
  if (outcome.kind == Outcome::kRefused) {
    ++tally.refused[outcome.text];
  } else {
    ++tally.run;
  }
  return tally;
}

namespace {

// Plans, and runs forward once with a workspace of its own. The workspace is left in *workspace for a second
// run.
Outcome first_run(PreparedCall &call, const Kernel &kernel, flashattn_handle_t *handle, Device &device,
                  Plan *plan, std::unique_ptr<Workspace> *workspace) {
  std::snprintf(call.problem.kernel, sizeof(call.problem.kernel), "%s", kernel.name.c_str());
  flashattn_plan_t *raw = nullptr;
  flashattn_status_t status = flashattn_plan_create(handle, &call.problem, &raw);
  plan->reset(raw);
  if (status == FLASHATTN_STATUS_UNSUPPORTED) {
    const std::string reason = flashattn_last_error();
    if (raw != nullptr) return failed("plan_create refused but left a plan");
    if (!names_a_field(reason)) return failed("the refusal names no field: " + reason);
    return {Outcome::kRefused, reason};
  }
  if (status != FLASHATTN_STATUS_OK) return failed("plan_create", status);
  flashattn_plan_info_t info{};
  info.struct_size = sizeof(info);
  status = flashattn_plan_info(raw, &info);
  if (status != FLASHATTN_STATUS_OK) return failed("plan_info", status);
  if (!kernel.name.empty() && kernel.name != info.kernel)
    return failed(std::string("planned ") + info.kernel);
  if (info.deterministic != 1) return failed("plan_info says the result is not deterministic");
  if ((call.problem.flags & FLASHATTN_FLAG_BATCH_INVARIANT) != 0 && info.batch_invariant != 1) {
    return failed("plan_info says the result is not batch-invariant, and the flag is set");
  }
  const uint64_t alignment = info.workspace_alignment;
  if (alignment == 0 || (alignment & (alignment - 1)) != 0)
    return failed("workspace_alignment is no power of two");

  *workspace = std::make_unique<Workspace>(device, info);
  status = flashattn_workspace_init(raw, (*workspace)->data(), (*workspace)->size(), device.stream());
  if (status != FLASHATTN_STATUS_OK) return failed("workspace_init", status);
  call.reset_outputs();
  status = flashattn_forward(raw, &call.call, (*workspace)->data(), (*workspace)->size(), device.stream());
  if (status != FLASHATTN_STATUS_OK) return failed("forward", status);
  const std::string error = call.fetch();
  if (!error.empty()) return failed("forward: " + error);
  return {Outcome::kPassed, ""};
}

Outcome judge(const PreparedCall &call, const Expected *expected, Tally *tally) {
  if (expected == nullptr) return {Outcome::kPassed, ""};
  double share = 0;
  const std::string error = call.compare(*expected, &share);
  tally->share = std::max(tally->share, share);
  return error.empty() ? Outcome{Outcome::kPassed, ""} : failed(error);
}

}  // namespace

Outcome Session::run_once(const Case &c, PreparedCall &call, const Expected *expected, const Kernel &kernel) {
  Plan plan;
  std::unique_ptr<Workspace> workspace;
  const Outcome outcome =
      first_run(call, kernel, handle(kernel.backend, c.threads), device(kernel.backend), &plan, &workspace);
  Tally &tally = count(kernel, outcome);
  return outcome.kind == Outcome::kPassed ? judge(call, expected, &tally) : outcome;
}

Outcome Session::run(const Case &c, PreparedCall &call, const Expected *expected, const Kernel &kernel) {
  Device &memory = device(kernel.backend);
  flashattn_handle_t *opened = handle(kernel.backend, c.threads);
  Plan plan;
  std::unique_ptr<Workspace> workspace;
  const Outcome first = first_run(call, kernel, opened, memory, &plan, &workspace);
  Tally &tally = count(kernel, first);
  if (first.kind != Outcome::kPassed) return first;
  const Outcome judged = judge(call, expected, &tally);
  if (judged.kind != Outcome::kPassed) return judged;
  const std::vector<uint8_t> bits = call.snapshot();

  call.reset_outputs();
  flashattn_status_t status =
      flashattn_forward(plan.get(), &call.call, workspace->data(), workspace->size(), memory.stream());
  if (status != FLASHATTN_STATUS_OK) return failed("second forward", status);
  std::string error = call.fetch();
  if (!error.empty()) return failed("second forward: " + error);
  if (call.snapshot() != bits) return failed("a second forward gives other bits");
  error = workspace->check();
  if (!error.empty()) return failed("workspace: " + error);

  call.reset_outputs();
  status = flashattn_attention(opened, &call.problem, &call.call, memory.stream());
  if (status != FLASHATTN_STATUS_OK) return failed("attention", status);
  error = call.fetch();
  if (!error.empty()) return failed("attention: " + error);
  if (call.snapshot() != bits) return failed("attention gives other bits than forward");
  return {Outcome::kPassed, ""};
}

std::vector<std::string> Session::run_everywhere(const Case &c) {
  std::vector<std::string> failures;
  const Contents contents = make_contents(c, rng_for(c.name));
  const Expected expected = oracle(c, contents);
  std::unique_ptr<PreparedCall> call;
  int32_t backend = 0;
  for (const Kernel &kernel : kernels_) {
    if (!call || kernel.backend != backend) {
      call = std::make_unique<PreparedCall>(c, contents, device(kernel.backend));
      backend = kernel.backend;
    }
    const Outcome outcome = run(c, *call, &expected, kernel);
    // The CPU backend is complete: its own choice, and its last kernel, take everything.
    const bool hole =
        outcome.kind == Outcome::kRefused && kernel.backend == FLASHATTN_BACKEND_CPU && kernel.complete;
    if (outcome.kind == Outcome::kFailed || hole) {
      failures.push_back(kernel.label() + ": " + outcome.text + "\n  case " + describe(c) + "\n  seed " +
                         std::to_string(run_seed()));
    }
  }
  return failures;
}

std::string Session::summary(bool reasons) const {
  std::ostringstream out;
  for (const auto &[key, tally] : tallies_) {
    int64_t refused = 0;
    for (const auto &[reason, times] : tally.refused) refused += times;
    out << Kernel{key.first, key.second, false}.label() << ": cases run: " << tally.run
        << ", refused: " << refused << ", largest error: " << std::round(100 * tally.share)
        << "% of the bound\n";
    if (!reasons) continue;
    for (const auto &[reason, times] : tally.refused) out << "    " << times << " x " << reason << '\n';
  }
  for (const std::string &text : unavailable_) out << "not on this machine: " << text << '\n';
  return out.str();
}

}  // namespace flashattn::test
