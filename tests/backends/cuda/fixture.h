// SPDX-License-Identifier: Apache-2.0
// What the tests on the fake driver share: its account, a handle, a problem with a call, a plan.
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "backends/gpu/args.h"
#include "flashattn.h"
#include "tests/backends/cuda/fake/fake_cuda.h"

namespace flashattn {

inline const FakeControl &control() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  return *reinterpret_cast<const FakeControl *(*)()>(dlsym(library, "fakeControl"))();
}

inline std::string error() {
  return flashattn_last_error();
}
inline bool error_has(const char *words) {
  return error().find(words) != std::string::npos;
}

// A handle, closed with the object; what it took is then given back and the driver saw no mistake.
class Gpu {
 public:
  explicit Gpu(int32_t device = 0, void *context = nullptr) {
    flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
    options.backend = FLASHATTN_BACKEND_CUDA;
    options.device = device;
    options.context = context;
    depth_ = control().stack_depth();
    const flashattn_status_t status = flashattn_create(&options, &handle);
    INFO(error());
    REQUIRE(status == FLASHATTN_STATUS_OK);
  }
  ~Gpu() {
    flashattn_destroy(handle);
    CHECK(control().stack_depth() == depth_);
    CHECK(control().retained(0) == 0);
    CHECK(control().retained(1) == 0);
    CHECK(control().modules() == 0);
    CHECK(control().bytes_in_use() == 0);
    CHECK(control().mistakes() == 0);
  }
  Gpu(const Gpu &) = delete;
  Gpu &operator=(const Gpu &) = delete;

  flashattn_handle_t *handle = nullptr;

 private:
  int depth_;
};

// bf16 self-attention; the fake driver reads no tensor, so that any aligned address will do.
struct Attention {
  explicit Attention(int32_t dim = 128, int32_t n_q = 300, int32_t n_k = 1000) {
    problem.dtype_q = problem.dtype_kv = FLASHATTN_DTYPE_BF16;
    problem.num_heads_q = 8;
    problem.num_heads_kv = 2;
    problem.head_dim = dim;
    problem.max_batch = 3;
    problem.max_seqlen_q = n_q;
    problem.max_seqlen_kv = n_k;
    call.batch = 3;
    call.seqlen_q = n_q;
    call.seqlen_kv = n_k;
    call.q.data = memory;
    call.k.data = memory + 256;
    call.v.data = memory + 512;
    call.o.data = memory + 768;
    REQUIRE(flashattn_call_contiguous(&problem, &call) == FLASHATTN_STATUS_OK);
  }
  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  flashattn_call_t call = FLASHATTN_CALL_INIT;
  alignas(256) char memory[1024];
};

inline flashattn_plan_info_t info_of(const flashattn_plan_t *plan) {
  flashattn_plan_info_t info{};
  info.struct_size = sizeof info;
  REQUIRE(flashattn_plan_info(plan, &info) == FLASHATTN_STATUS_OK);
  return info;
}

struct Plan {
  Plan(const Gpu &gpu, const flashattn_problem_t &problem) {
    const flashattn_status_t status = flashattn_plan_create(gpu.handle, &problem, &plan);
    INFO(error());
    REQUIRE(status == FLASHATTN_STATUS_OK);
    info = info_of(plan);
    workspace.resize(info.workspace_size + info.workspace_alignment);
  }
  ~Plan() { flashattn_plan_destroy(plan); }
  Plan(const Plan &) = delete;
  Plan &operator=(const Plan &) = delete;

  flashattn_status_t forward(const flashattn_call_t &call, void *stream) {
    const auto at = reinterpret_cast<uintptr_t>(workspace.data());
    const uintptr_t aligned =
        (at + info.workspace_alignment - 1) / info.workspace_alignment * info.workspace_alignment;
    return flashattn_forward(plan, &call, reinterpret_cast<void *>(aligned), info.workspace_size, stream);
  }

  flashattn_plan_t *plan = nullptr;
  flashattn_plan_info_t info{};
  std::vector<char> workspace;
};

inline FakeLaunch last_launch(int back = 0) {
  return control().launch(control().launches() - 1 - back);
}
inline gpu::ForwardArgs args_of(const FakeLaunch &launch) {
  gpu::ForwardArgs args;
  std::memcpy(&args, launch.arguments, sizeof args);
  return args;
}

}  // namespace flashattn
