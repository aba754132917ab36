// SPDX-License-Identifier: Apache-2.0
// The host side against a driver that writes everything down.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/kernel_list.h"
#include "tests/backends/cuda/fixture.h"

namespace flashattn {

TEST_CASE("host: devices are listed without initialising CUDA, as CUDA_VISIBLE_DEVICES shows them") {
  const auto count = [] {
    int32_t devices = -1;
    flashattn_device_count(FLASHATTN_BACKEND_CUDA, &devices);
    return devices;
  };
  CHECK(count() == 2);
  flashattn_device_info_t info{};
  info.struct_size = sizeof info;
  REQUIRE(flashattn_device_info(FLASHATTN_BACKEND_CUDA, 1, &info) == FLASHATTN_STATUS_OK);
  CHECK(std::string(info.name) == "Fake CUDA 1");
  CHECK(std::string(info.features) == "sm_89");
  CHECK(info.compute_units == 142);
  CHECK(info.total_memory_bytes == uint64_t{2} << 30);
  const struct {
    const char *list;
    int32_t count;
  } lists[] = {{"1", 1},    {"", 0},   {"0,7,1", 1}, {"1, 0", 2}, {"GPU-2", 1},
               {"GPU-", 0}, {"-1", 0}, {"x", 0},     {"MIG-a", 1}};
  for (const auto &item : lists) {
    INFO(std::string(item.list));
    setenv("CUDA_VISIBLE_DEVICES", item.list, 1);
    CHECK(count() == item.count);
  }
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  REQUIRE(flashattn_device_info(FLASHATTN_BACKEND_CUDA, 0, &info) == FLASHATTN_STATUS_OK);
  CHECK(std::string(info.name) == "Fake CUDA 1");
  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK(control().mistakes() == 0);
}

TEST_CASE("host: the named device computes, on the stream that is given, with the context put back") {
  for (const int32_t device : {0, 1}) {
    const Gpu gpu(device);
    Attention attention(128);
    Plan plan(gpu, attention.problem);
    const char *kernel = device == 0 ? "fwd_sm80_bf16_d128" : "fwd_cuda_generic";
    CHECK(std::string(plan.info.kernel) == kernel);
    CHECK(plan.info.device == device);
    int stream = 0;
    const int launches = control().launches();
    REQUIRE(plan.forward(attention.call, &stream) == FLASHATTN_STATUS_OK);
    REQUIRE(control().launches() > launches);
    for (int n = launches; n < control().launches(); ++n) {
      CHECK(control().launch(n).device == device);
      CHECK(control().launch(n).stream == &stream);
    }
    CHECK(control().stack_depth() == 0);
  }
}

TEST_CASE("host: a caller's context is used and is current again afterwards") {
  void *mine = control().make_context(1);
  void *other = control().make_context(0);
  control().make_current(other);
  {
    const Gpu gpu(1, mine);
    CHECK(control().stack_depth() == 1);
    Attention attention;
    Plan plan(gpu, attention.problem);
    CHECK(plan.forward(attention.call, nullptr) == FLASHATTN_STATUS_OK);
    CHECK(last_launch().device == 1);
    CHECK(control().retained(1) == 0);
  }
  CHECK(control().stack_depth() == 1);
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CUDA;
  options.context = mine;
  flashattn_handle_t *handle = nullptr;
  CHECK(flashattn_create(&options, &handle) == FLASHATTN_STATUS_INVALID_ARGUMENT);
  CHECK(error_has("context belongs to device 1"));
}

TEST_CASE("host: any thread may launch") {
  const Gpu gpu;
  Attention attention;
  std::vector<std::thread> threads;
  std::vector<int> failed(4, 1);
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([&, n] {
      int stream = 0;
      for (int repeat = 0; repeat < 20; ++repeat) {
        if (flashattn_attention(gpu.handle, &attention.problem, &attention.call, &stream) !=
            FLASHATTN_STATUS_OK)
          return;
      }
      failed[n] = control().stack_depth();
    });
  }
  for (std::thread &thread : threads) thread.join();
  CHECK(failed == std::vector<int>(4, 0));
}

TEST_CASE("host: all code is resident once a plan exists; forward and combine load none") {
  const Gpu gpu;
  Attention attention(128, 1, 8192);
  Plan plan(gpu, attention.problem);
  const int modules = control().modules();
  const int resident = control().functions_loaded();
  CHECK(plan.info.num_splits > 1);
  CHECK(plan.info.capturable == 1);
  int stream = 0;
  control().set_capturing(&stream, 1);
  CHECK(plan.forward(attention.call, &stream) == FLASHATTN_STATUS_OK);
  CHECK(std::string(last_launch().function) == "combine_splits");
  attention.call.q.data = attention.memory + 2;
  CHECK(plan.forward(attention.call, &stream) == FLASHATTN_STATUS_OK);
  CHECK(std::string(last_launch(1).function) == "fwd_cuda_generic");
  CHECK(flashattn_attention(gpu.handle, &attention.problem, &attention.call, &stream) ==
        FLASHATTN_STATUS_CAPTURING);
  control().set_capturing(&stream, 0);
  CHECK(control().modules() == modules);
  CHECK(control().functions_loaded() == resident);
}

TEST_CASE("host: launch geometry") {
  const Gpu gpu;
  const struct {
    int32_t dim, n_q, n_k;
    const char *kernel;
    int32_t rows;
  } shapes[] = {{64, 300, 1000, "fwd_sm80_bf16_d64", 128},
                {104, 300, 1000, "fwd_sm80_bf16_d128", 128},
                {128, 1, 100, "fwd_sm80_bf16_d128", 128},
                {192, 300, 1000, "fwd_sm80_bf16_d256", 64},
                {400, 300, 1000, "fwd_cuda_generic", 16}};
  for (const auto &shape : shapes) {
    Attention attention(shape.dim, shape.n_q, shape.n_k);
    attention.problem.num_splits = 1;
    Plan plan(gpu, attention.problem);
    INFO(std::string(shape.kernel));
    CHECK(std::string(plan.info.kernel) == shape.kernel);
    REQUIRE(plan.forward(attention.call, nullptr) == FLASHATTN_STATUS_OK);
    const FakeLaunch launch = last_launch();
    const gpu::ForwardArgs args = args_of(launch);
    const int32_t tiles = (shape.n_q * 4 + shape.rows - 1) / shape.rows;
    CHECK(args.q_tiles == tiles);
    CHECK(launch.grid == static_cast<unsigned>(3 * 2 * tiles));
    CHECK(launch.block == 128);
    CHECK(args.q.data == attention.call.q.data);
    CHECK(args.dim == shape.dim);
    CHECK(args.dim_v == shape.dim);
  }
}

TEST_CASE("host: more than 65535 blocks, and more than one dimension of a grid holds") {
  const Gpu gpu;
  Attention attention(64, 1, 2);
  attention.problem.max_batch = attention.call.batch = 80000;
  attention.problem.num_heads_q = attention.problem.num_heads_kv = 16;
  REQUIRE(flashattn_call_contiguous(&attention.problem, &attention.call) == FLASHATTN_STATUS_OK);
  {
    Plan plan(gpu, attention.problem);
    REQUIRE(plan.forward(attention.call, nullptr) == FLASHATTN_STATUS_OK);
    CHECK(last_launch().grid == 80000U * 16U);
  }
  attention.problem.max_batch = attention.call.batch = INT32_MAX;
  REQUIRE(flashattn_call_contiguous(&attention.problem, &attention.call) == FLASHATTN_STATUS_OK);
  Plan plan(gpu, attention.problem);
  CHECK(std::string(plan.info.kernel) == "fwd_cuda_generic");
  REQUIRE(plan.forward(attention.call, nullptr) == FLASHATTN_STATUS_OK);
  CHECK(last_launch().grid == INT32_MAX);
  CHECK(args_of(last_launch()).blocks == int64_t{16} * INT32_MAX);
}

TEST_CASE("host: scores that are more than a multiple of q.k get the entry point for them") {
  const Gpu gpu;
  Attention attention;
  attention.problem.num_splits = 1;
  const auto function_with = [&](float softcap, float scale) {
    attention.problem.softcap = softcap;
    attention.problem.softmax_scale = scale;
    Plan plan(gpu, attention.problem);
    REQUIRE(plan.forward(attention.call, nullptr) == FLASHATTN_STATUS_OK);
    return std::string(last_launch().function);
  };
  CHECK(function_with(0, 0) == "fwd_plain");
  CHECK(function_with(20, 0) == "fwd_modified");
  CHECK(function_with(0, -1) == "fwd_modified");
}

TEST_CASE("host: a misaligned call runs the generic kernel, or is refused where fast is required") {
  const Gpu gpu;
  Attention attention;
  attention.problem.flags = FLASHATTN_FLAG_REQUIRE_FAST;
  attention.call.v.stride_seq += 1;
  attention.call.v.stride_batch *= 2;
  Plan fast(gpu, attention.problem);
  const int launches = control().launches();
  CHECK(fast.forward(attention.call, nullptr) == FLASHATTN_STATUS_UNSUPPORTED);
  CHECK(error_has("v has a base or stride"));
  CHECK(control().launches() == launches);
  CHECK(std::string(fast.info.generic_kernel).empty());
  attention.problem.flags = 0;
  attention.problem.num_splits = 1;
  Plan both(gpu, attention.problem);
  CHECK(both.forward(attention.call, nullptr) == FLASHATTN_STATUS_OK);
  CHECK(std::string(last_launch().function) == "fwd_cuda_generic");
}

TEST_CASE("host: reasons name the field, and forcing a kernel plans that kernel") {
  const Gpu gpu;
  for (int32_t index = 0; index < cuda::kernel_count(); ++index) {
    Attention attention(64);
    std::snprintf(attention.problem.kernel, sizeof attention.problem.kernel, "%s",
                  cuda::kernel_at(index).name);
    flashattn_plan_t *plan = nullptr;
    const flashattn_status_t status = flashattn_plan_create(gpu.handle, &attention.problem, &plan);
    if (std::strstr(attention.problem.kernel, "_f16") != nullptr) {
      CHECK(status == FLASHATTN_STATUS_UNSUPPORTED);
      CHECK(error_has("dtype_q is bf16"));
      continue;
    }
    if (std::strstr(attention.problem.kernel, "_sm90_") != nullptr) {
      CHECK(status == FLASHATTN_STATUS_UNSUPPORTED);
      CHECK(error_has("device has compute capability 8.0; it takes 9.0"));
      continue;
    }
    REQUIRE(status == FLASHATTN_STATUS_OK);
    CHECK(std::string(info_of(plan).kernel) == attention.problem.kernel);
    flashattn_plan_destroy(plan);
  }
  Attention wide(577);
  flashattn_plan_t *plan = nullptr;
  CHECK(flashattn_plan_create(gpu.handle, &wide.problem, &plan) == FLASHATTN_STATUS_UNSUPPORTED);
  CHECK(error_has("head_dim is 577; it takes at most 576"));
}

TEST_CASE("host: driver failures come back with the driver's code, and leave nothing behind") {
  const Gpu gpu;
  Attention attention(128, 1, 8192);
  int stream = 0;
  const int depth = control().stack_depth();
  for (const char *function :
       {"cuModuleLoadData", "cuModuleGetFunction", "cuFuncGetAttribute", "cuFuncSetAttribute",
        "cuCtxPushCurrent", "cuCtxGetCurrent", "cuMemAlloc", "cuStreamIsCapturing", "cuLaunchKernel"}) {
    control().fail(function, 700);
    const int launches = control().launches();
    INFO(std::string(function));
    CHECK(flashattn_attention(gpu.handle, &attention.problem, &attention.call, &stream) ==
          FLASHATTN_STATUS_DRIVER_ERROR);
    CHECK(flashattn_last_driver_error() == 700);
    CHECK(error_has("CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
    CHECK(control().launches() == launches);
    CHECK(control().stack_depth() == depth);
  }
  control().fail("cuMemAlloc", 2);
  Attention other(128, 1, 16384);
  CHECK(flashattn_attention(gpu.handle, &other.problem, &other.call, &stream) ==
        FLASHATTN_STATUS_OUT_OF_MEMORY);
  CHECK(flashattn_last_driver_error() == 2);
  CHECK(flashattn_attention(gpu.handle, &other.problem, &other.call, &stream) == FLASHATTN_STATUS_OK);
}

TEST_CASE("host: a device that cannot be opened gives everything back") {
  for (const char *function : {"cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuDeviceGetAttribute",
                               "cuDeviceGetName", "cuCtxPushCurrent", "cuModuleLoadData"}) {
    control().fail(function, 700);
    flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
    options.backend = FLASHATTN_BACKEND_CUDA;
    flashattn_handle_t *handle = nullptr;
    INFO(std::string(function));
    CHECK(flashattn_create(&options, &handle) == FLASHATTN_STATUS_DRIVER_ERROR);
    CHECK(handle == nullptr);
    CHECK(control().retained(0) == 0);
    CHECK(control().modules() == 0);
  }
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CUDA;
  options.device = 2;
  flashattn_handle_t *handle = nullptr;
  CHECK(flashattn_create(&options, &handle) == FLASHATTN_STATUS_INVALID_DEVICE);
  CHECK(error_has("device is 2"));
  options.device = 0;
  options.flags = FLASHATTN_OPTION_VALIDATE;
  CHECK(flashattn_create(&options, &handle) == FLASHATTN_STATUS_UNSUPPORTED);
  CHECK(error_has("VALIDATE"));
}

TEST_CASE("host: empty calls launch nothing") {
  const Gpu gpu;
  Attention attention;
  Plan plan(gpu, attention.problem);
  const int launches = control().launches();
  attention.call.batch = 0;
  CHECK(plan.forward(attention.call, nullptr) == FLASHATTN_STATUS_OK);
  attention.call.batch = 3;
  attention.call.seqlen_q = 0;
  CHECK(plan.forward(attention.call, nullptr) == FLASHATTN_STATUS_OK);
  CHECK(control().launches() == launches);
}

TEST_CASE("host: a merge is one launch, a warp to each row") {
  const Gpu gpu;
  alignas(16) float memory[64] = {};
  flashattn_combine_args_t args = FLASHATTN_COMBINE_ARGS_INIT;
  args.num_parts = 2;
  args.batch = 2;
  args.seqlen_q = 3;
  args.num_heads = 5;
  args.head_dim_v = 4;
  args.dtype_partial = args.dtype_o = FLASHATTN_DTYPE_F32;
  args.o_partial = {memory, 60, 20, 4};
  args.lse_partial = {memory, 15, 5, 1};
  args.o = {memory + 4, 60, 20, 4};
  REQUIRE(flashattn_combine(gpu.handle, &args, nullptr) == FLASHATTN_STATUS_OK);
  CHECK(std::string(last_launch().function) == "merge_parts");
  CHECK(last_launch().grid == 8);
  CHECK(last_launch().block == 128);
}

TEST_CASE("host: a forked child is told FORKED") {
  const Gpu gpu;
  Attention attention;
  const pid_t child = fork();
  if (child == 0) {
    _exit(flashattn_attention(gpu.handle, &attention.problem, &attention.call, nullptr) ==
                  FLASHATTN_STATUS_FORKED
              ? 0
              : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace flashattn
