// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/cpu_backend.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "backends/cpu/combine.h"
#include "backends/cpu/cpu_features.h"
#include "backends/cpu/forward.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/workers.h"
#include "backends/cpu/workspace.h"
#include "src/dtype.h"

namespace flashattn {
namespace {

using cpu::Blocking;
using cpu::Carver;
using cpu::Kernel;
using cpu::Shape;
using cpu::SplitRule;
using cpu::Workers;

constexpr int32_t kMaxThreads = 1024;

void copy_text(char *out, size_t size, const char *text) {
  std::snprintf(out, size, "%s", text);
}

class CpuPlan final : public BackendPlan {
 public:
  CpuPlan(const flashattn_problem_t &problem, const Shape &shape, const Kernel &kernel,
          std::vector<std::string> reasons, Workers *workers)
      : problem_(problem),
        shape_(shape),
        kernel_(kernel),
        blocking_(kernel.blocking(shape, std::max<int64_t>(1, int64_t{problem.max_seqlen_q} * shape.group))),
        reasons_(std::move(reasons)),
        workers_(workers) {
    const int64_t state_bytes = cpu::state_floats(blocking_.heads * blocking_.rows, shape.dim_v) *
                                static_cast<int64_t>(sizeof(float));
    rule_ = cpu::make_split_rule(shape, problem, blocking_, state_bytes);
    if (rule_.slots > INT64_MAX / 4 / state_bytes) return;  // fits() tells
    Carver carver(nullptr);
    cpu::carve_workspace(&carver, shape_, blocking_, rule_, workers_->count());
    workspace_size_ = carver.size();
  }

  // Whether the workspace can be counted at all.
  bool fits() const { return workspace_size_ > 0; }

  void info(flashattn_plan_info_t *info) const override {
    info->backend = FLASHATTN_BACKEND_CPU;
    info->device = 0;
    info->num_splits = rule_.max_splits;
    info->workspace_size = workspace_size_;
    info->workspace_alignment = cpu::kCarveAlignment;
    info->base_alignment = 1;
    info->stride_alignment = 1;
    info->deterministic = 1;
    info->batch_invariant = shape_.batch_invariant ? 1 : 0;
    info->capturable = 0;
    copy_text(info->kernel, sizeof info->kernel, kernel_.name);
    copy_text(info->generic_kernel, sizeof info->generic_kernel, kernel_.name);
  }

  const std::vector<std::string> &reasons() const override { return reasons_; }

  Status workspace_init(void * /*workspace*/, void * /*stream*/) const override { return kOk; }

  Status run(const flashattn_call_t &call, void *workspace, void * /*stream*/) const override {
    const Status status = cpu::check_sequences(shape_, problem_, call);
    if (status != kOk) return status;
    Carver carver(workspace);
    const cpu::Workspace placed = cpu::carve_workspace(&carver, shape_, blocking_, rule_, workers_->count());
    cpu::forward(shape_, kernel_, blocking_, rule_, call, placed, workers_);
    return kOk;
  }

 private:
  flashattn_problem_t problem_;
  Shape shape_;
  const Kernel &kernel_;
  Blocking blocking_;
  SplitRule rule_{};
  size_t workspace_size_ = 0;
  std::vector<std::string> reasons_;
  Workers *workers_;  // the device outlives its plans
};

class CpuDevice final : public BackendDevice {
 public:
  CpuDevice(const flashattn_options_t &options, const Host &host, int32_t num_threads)
      : host_(host), workers_(num_threads, options.parallel_for, options.parallel_for_user) {}

  void info(flashattn_handle_info_t *info) const override {
    info->backend = FLASHATTN_BACKEND_CPU;
    info->device = 0;
    info->num_threads = workers_.count();
    cpu::cpu_name(info->name, sizeof info->name);
  }

  Status plan(const flashattn_problem_t &problem, std::unique_ptr<BackendPlan> *plan) override {
    const Shape shape = cpu::make_shape(problem);
    std::vector<std::string> reasons;
    const Kernel *kernel = nullptr;
    const Status chosen = choose(problem, shape, &kernel, &reasons);
    if (kernel == nullptr) return chosen;
    auto made = std::make_unique<CpuPlan>(problem, shape, *kernel, std::move(reasons), &workers_);
    if (!made->fits()) {
      return fail(FLASHATTN_STATUS_UNSUPPORTED,
                  "num_splits is %d; the partial results of max_batch %d and "
                  "max_seqlen_q %d would not fit any address space",
                  problem.num_splits, problem.max_batch, problem.max_seqlen_q);
    }
    // Here rather than at the first forward, which may not allocate.
    const Status started = workers_.start();
    if (started != kOk) return started;
    host_.log(FLASHATTN_LOG_DEBUG, "cpu: plan runs %s", kernel->name);
    *plan = std::move(made);
    return kOk;
  }

  Status combine(const flashattn_combine_args_t &args, void * /*stream*/) override {
    for (const auto &[field, dtype] : {std::pair<const char *, int32_t>{"dtype_partial", args.dtype_partial},
                                       std::pair<const char *, int32_t>{"dtype_o", args.dtype_o}}) {
      if (!is_float_dtype(dtype)) {
        return fail(FLASHATTN_STATUS_UNSUPPORTED, "%s is %s; the CPU takes f32, f16 and bf16", field,
                    cpu::dtype_name(dtype));
      }
    }
    // No plan need have been made on this handle.
    if (const Status started = workers_.start(); started != kOk) return started;
    cpu::combine(args, &workers_);
    return kOk;
  }

  Status allocate(size_t size, size_t alignment, void **memory) override {
    *memory = host_.allocate(size, alignment);
    if (*memory != nullptr) return kOk;
    return fail(FLASHATTN_STATUS_OUT_OF_MEMORY, "the allocator refused %zu bytes of workspace", size);
  }

  void release(void *memory, size_t size, size_t alignment) override {
    host_.release(memory, size, alignment);
  }

  Status is_capturing(void * /*stream*/, bool *capturing) override {
    *capturing = false;
    return kOk;
  }

  bool asynchronous() const override { return false; }

 private:
  // The first kernel of the list that takes the problem, or the forced one.
  static Status choose(const flashattn_problem_t &problem, const Shape &shape, const Kernel **chosen,
                       std::vector<std::string> *reasons) {
    char refusal[192];
    cpu::refuse_shape(shape, refusal, sizeof refusal);
    if (refusal[0] != '\0') return fail(FLASHATTN_STATUS_UNSUPPORTED, "%s", refusal);
    const bool forced = problem.kernel[0] != '\0';
    std::string last;
    for (int32_t k = 0; k < cpu::kernel_count(); ++k) {
      const Kernel &kernel = cpu::kernel_at(k);
      if (forced && std::strncmp(problem.kernel, kernel.name, sizeof problem.kernel) != 0) continue;
      const char *reason = kernel.missing(cpu::cpu_features());
      if (reason == nullptr && kernel.generic && (problem.flags & FLASHATTN_FLAG_REQUIRE_FAST) != 0) {
        reason = "flags has REQUIRE_FAST; this is the generic kernel";
      }
      if (reason == nullptr) {
        *chosen = &kernel;
        return kOk;
      }
      last = std::string(kernel.name) + ": " + reason;
      reasons->push_back(last);
    }
    if (last.empty()) {
      return fail(FLASHATTN_STATUS_UNSUPPORTED,
                  "kernel is \"%.63s\"; the cpu backend has no kernel of that name", problem.kernel);
    }
    return fail(FLASHATTN_STATUS_UNSUPPORTED, "no kernel takes the problem; %s", last.c_str());
  }

  const Host &host_;
  Workers workers_;
};

class CpuBackend final : public Backend {
 public:
  constexpr CpuBackend() = default;

  int32_t id() const override { return FLASHATTN_BACKEND_CPU; }
  const char *name() const override { return "cpu"; }

  Status probe(int32_t *count, int32_t *driver_version) const override {
    *count = 1;
    *driver_version = 0;
    return kOk;
  }

  Status device_info(int32_t /*ordinal*/, flashattn_device_info_t *info) const override {
    info->compute_units = cpu::cpu_count();
    info->capability_major = 0;
    info->capability_minor = 0;
    info->total_memory_bytes = cpu::total_memory();
    cpu::cpu_name(info->name, sizeof info->name);
    cpu::cpu_feature_names(info->features, sizeof info->features);
    return kOk;
  }

  int32_t kernel_count() const override { return cpu::kernel_count(); }

  void kernel_info(int32_t index, flashattn_kernel_info_t *info) const override {
    const Kernel &kernel = cpu::kernel_at(index);
    const char *missing = kernel.missing(cpu::cpu_features());
    copy_text(info->name, sizeof info->name, kernel.name);
    info->available = missing == nullptr ? 1 : 0;
    copy_text(info->reason, sizeof info->reason, missing == nullptr ? "" : missing);
  }

  Status open(const flashattn_options_t &options, const Host &host,
              std::unique_ptr<BackendDevice> *device) const override {
    if (options.device != 0) {
      return fail(FLASHATTN_STATUS_INVALID_DEVICE, "device is %d; the CPU has only device 0", options.device);
    }
    if (options.num_threads > kMaxThreads) {
      return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "num_threads is %d; the most is %d", options.num_threads,
                  kMaxThreads);
    }
    const int32_t threads =
        options.num_threads > 0 ? options.num_threads : std::min(cpu::cpu_count(), kMaxThreads);
    *device = std::make_unique<CpuDevice>(options, host, threads);
    return kOk;
  }
};

constexpr CpuBackend kCpuBackend;

}  // namespace

const Backend &cpu_backend() {
  return kCpuBackend;
}

}  // namespace flashattn
