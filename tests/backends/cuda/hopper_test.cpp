// SPDX-License-Identifier: Apache-2.0
// The kernels of compute capability 9.0 on a driver with two H200: dispatch, launch, tensor maps, refusals.
#include <cmath>
#include <cstdio>
#include <memory>

#include "backends/cuda/kernels/sm90/geometry.h"
#include "backends/cuda/kernels/sm90/params.h"
#include "tests/backends/cuda/fixture.h"

namespace flashattn {
namespace {

sm90::FwdParams params_of(const FakeLaunch &launch) {
  sm90::FwdParams params;
  std::memcpy(&params, launch.arguments, sizeof params);
  return params;
}
FakeTensorMap map_of(const sm90::TensorMap &map) {
  FakeTensorMap known;
  std::memcpy(&known, &map, sizeof known);
  return known;
}

// The planned kernel, and all reasons in one text.
std::string planned(const Gpu &gpu, const flashattn_problem_t &problem, std::string *reasons = nullptr) {
  Plan plan(gpu, problem);
  for (int32_t index = 0; reasons != nullptr && index < plan.info.reason_count; ++index) {
    const char *reason = nullptr;
    REQUIRE(flashattn_plan_reason(plan.plan, index, &reason) == FLASHATTN_STATUS_OK);
    *reasons += std::string(reason) + "\n";
  }
  return plan.info.kernel;
}

}  // namespace

TEST_CASE(
    "hopper: each head dimension and type has its kernel, launched once a call, a block a multiprocessor") {
  const Gpu gpu(1);
  for (const int32_t dtype : {FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_BF16}) {
    for (const sm90::Geometry &g : sm90::kGeometry) {
      Attention attention(g.head_dim, 700, 3000);
      attention.problem.dtype_q = attention.problem.dtype_kv = dtype;
      attention.problem.causal = 1;
      const std::string name = std::string("fwd_sm90_") + (dtype == FLASHATTN_DTYPE_F16 ? "f16" : "bf16") +
                               "_d" + std::to_string(g.head_dim);
      Plan plan(gpu, attention.problem);
      INFO(name);
      CHECK(std::string(plan.info.kernel) == name);
      CHECK(std::string(plan.info.generic_kernel) == "fwd_cuda_generic");
      CHECK(plan.info.num_splits == 1);
      CHECK(plan.info.base_alignment == 16);
      CHECK(plan.info.capturable == 1);
      int stream = 0;
      const int launches = control().launches();
      REQUIRE(plan.forward(attention.call, &stream) == FLASHATTN_STATUS_OK);
      REQUIRE(control().launches() == launches + 1);
      const FakeLaunch launch = last_launch();
      CHECK(std::string(launch.function) == name);
      CHECK(launch.stream == &stream);
      CHECK(launch.device == 1);
      const int32_t tiles = (700 + g.block_m - 1) / g.block_m * 3 * 8;
      CHECK(launch.grid == static_cast<unsigned>(tiles < 132 ? tiles : 132));
      CHECK(launch.block == static_cast<unsigned>(g.threads));
      CHECK(launch.shared == static_cast<unsigned>(g.shared_bytes));
      const sm90::FwdParams p = params_of(launch);
      CHECK(p.total_tiles == tiles);
      CHECK(p.n_q == 700);
      CHECK(p.n_k == 3000);
      CHECK(p.heads == 8);
      CHECK(p.group_size == 4);
      CHECK(p.batch_heads == 24);
      CHECK(p.causal == 1);
      CHECK(p.diagonal == 2300);
      CHECK(p.lse == nullptr);
      CHECK(p.scale_log2 == doctest::Approx(1.4426950408889634 / std::sqrt(g.head_dim)).epsilon(1e-6));
      CHECK(p.o_rows == attention.call.o.data);
      CHECK(p.o_stride_row == attention.call.o.stride_seq);
      CHECK(p.o_stride_head == attention.call.o.stride_head);
      CHECK(p.o_stride_batch == attention.call.o.stride_batch);
    }
  }
}

TEST_CASE("hopper: tensor maps are (column, row, head, batch) with 128-byte boxes and swizzle") {
  const Gpu gpu;
  Attention attention(128, 300, 1000);
  attention.call.k.stride_head = 1000 * 128;  // K as [B, H, S, D]
  attention.call.k.stride_seq = 128;
  Plan plan(gpu, attention.problem);
  REQUIRE(plan.forward(attention.call, nullptr) == FLASHATTN_STATUS_OK);
  const sm90::FwdParams p = params_of(last_launch());
  const struct {
    const sm90::TensorMap &map;
    const flashattn_tensor_t &tensor;
    uint64_t rows, heads;
    uint32_t box;
  } maps[] = {{p.q, attention.call.q, 300, 8, 128},
              {p.k, attention.call.k, 1000, 2, 128},
              {p.v, attention.call.v, 1000, 2, 128},
              {p.o, attention.call.o, 300, 8, 64}};
  for (const auto &item : maps) {
    const FakeTensorMap map = map_of(item.map);
    CHECK(map.address == item.tensor.data);
    CHECK(map.data_type == 9);
    CHECK(map.dims[0] == 128);
    CHECK(map.dims[1] == item.rows);
    CHECK(map.dims[2] == item.heads);
    CHECK(map.dims[3] == 3);
    CHECK(map.strides[0] == static_cast<uint64_t>(item.tensor.stride_seq) * 2);
    CHECK(map.strides[1] == static_cast<uint64_t>(item.tensor.stride_head) * 2);
    CHECK(map.strides[2] == static_cast<uint64_t>(item.tensor.stride_batch) * 2);
    CHECK(map.box[0] == 64);
    CHECK(map.box[1] == item.box);
    CHECK(map.box[2] == 1);
    CHECK(map.box[3] == 1);
    CHECK(map.rank == 4);
    CHECK(map.interleave == 0);
    CHECK(map.swizzle == 3);
    CHECK(map.promotion == 3);
    CHECK(map.fill == 0);
  }
}

TEST_CASE("hopper: strides of a dimension of one may be anything, and no keys still make maps") {
  const Gpu gpu;
  Attention attention(64, 300, 1000);
  attention.problem.max_batch = attention.call.batch = 1;
  attention.call.q.stride_batch = attention.call.o.stride_batch = 3;
  attention.call.k.stride_batch = attention.call.v.stride_batch = int64_t{1} << 45;
  attention.problem.num_heads_kv = 1;
  attention.call.k.stride_head = attention.call.v.stride_head = 5;
  attention.call.k.stride_seq = attention.call.v.stride_seq = 64;
  attention.problem.max_batch = 1;
  Plan plan(gpu, attention.problem);
  REQUIRE(std::string(plan.info.kernel) == "fwd_sm90_bf16_d64");
  REQUIRE(plan.forward(attention.call, nullptr) == FLASHATTN_STATUS_OK);
  CHECK(std::string(last_launch().function) == "fwd_sm90_bf16_d64");
  attention.call.seqlen_kv = 0;
  attention.call.k.data = attention.call.v.data = nullptr;
  REQUIRE(plan.forward(attention.call, nullptr) == FLASHATTN_STATUS_OK);
  const sm90::FwdParams p = params_of(last_launch());
  CHECK(p.n_k == 0);
  CHECK(map_of(p.k).dims[1] == 1);
  CHECK(map_of(p.v).dims[1] == 1);
}

TEST_CASE("hopper: LSE, offsets and scale reach the kernel; the diagonal stops where it no longer matters") {
  const Gpu gpu;
  Attention attention(64, 100, 30000);
  attention.problem.causal = 1;
  attention.problem.softmax_scale = 0.5F;
  attention.problem.num_splits = 1;
  // Nothing is read or written: an address apart from the tensors' will do.
  void *lse = reinterpret_cast<void *>(uintptr_t{1} << 40);
  attention.call.lse = {lse, 1000, 10, 1};
  Plan plan(gpu, attention.problem);
  const auto diagonal_at = [&](int32_t offset) {
    attention.call.diag_offset = offset;
    REQUIRE(plan.forward(attention.call, nullptr) == FLASHATTN_STATUS_OK);
    return params_of(last_launch()).diagonal;
  };
  CHECK(diagonal_at(0) == 29900);
  CHECK(diagonal_at(-29900) == 0);
  CHECK(diagonal_at(INT32_MIN) == -100);
  CHECK(diagonal_at(INT32_MAX) == 30000);
  const sm90::FwdParams p = params_of(last_launch());
  CHECK(p.lse == lse);
  CHECK(p.lse_stride_batch == 1000);
  CHECK(p.lse_stride_row == 10);
  CHECK(p.lse_stride_head == 1);
  CHECK(p.scale_log2 == doctest::Approx(0.72134752));
  // 16 MiB of K and V: 30000 keys of 64 columns take 7.7 MB.
  CHECK(p.heads_per_group == 4 * 2);
}

TEST_CASE("hopper: the counter of tiles is cleared by workspace_init, and other kernels keep off it") {
  const Gpu gpu;
  Attention attention(128, 300, 8192);
  Plan plan(gpu, attention.problem);
  REQUIRE(std::string(plan.info.kernel) == "fwd_sm90_bf16_d128");
  CHECK(plan.info.workspace_size >= 256);
  std::vector<char> memory(plan.info.workspace_size + 512, 1);
  void *at = memory.data();
  size_t room = memory.size();
  REQUIRE(std::align(256, plan.info.workspace_size, at, room) != nullptr);
  REQUIRE(flashattn_workspace_init(plan.plan, at, plan.info.workspace_size, nullptr) == FLASHATTN_STATUS_OK);
  CHECK(*static_cast<int32_t *>(at) == 0);
  const int memsets = control().memsets();
  const auto forward = [&] {
    REQUIRE(flashattn_forward(plan.plan, &attention.call, at, plan.info.workspace_size, nullptr) ==
            FLASHATTN_STATUS_OK);
  };
  forward();
  CHECK(params_of(last_launch()).tile_counter == at);
  attention.call.q.data = attention.memory + 2;
  attention.call.batch = 1;
  attention.call.seqlen_q = 1;
  forward();
  CHECK(std::string(last_launch().function) == "combine_splits");
  CHECK(static_cast<void *>(args_of(last_launch()).partial_lse) == static_cast<char *>(at) + 256);
  CHECK(control().memsets() == memsets);
}

TEST_CASE("hopper: a call that tensor maps cannot describe runs the generic kernel, or is refused") {
  const Gpu gpu;
  Attention attention(128, 300, 1000);
  const auto runs = [&](const Plan &, flashattn_status_t status) {
    REQUIRE(status == FLASHATTN_STATUS_OK);
    return std::string(last_launch().function);
  };
  attention.problem.num_splits = 1;
  Plan plan(gpu, attention.problem);
  CHECK(runs(plan, plan.forward(attention.call, nullptr)) == "fwd_sm90_bf16_d128");
  const flashattn_call_t good = attention.call;
  attention.call.k.data = attention.memory + 2;
  CHECK(runs(plan, plan.forward(attention.call, nullptr)) == "fwd_cuda_generic");
  attention.call = good;
  attention.call.v.stride_seq += 4;
  attention.call.v.stride_batch *= 2;
  CHECK(runs(plan, plan.forward(attention.call, nullptr)) == "fwd_cuda_generic");
  attention.call = good;
  attention.call.q.stride_batch = int64_t{1} << 39;  // elements: 2^40 bytes
  CHECK(runs(plan, plan.forward(attention.call, nullptr)) == "fwd_cuda_generic");

  attention.problem.flags = FLASHATTN_FLAG_REQUIRE_FAST;
  Plan fast(gpu, attention.problem);
  const int launches = control().launches();
  CHECK(fast.forward(attention.call, nullptr) == FLASHATTN_STATUS_UNSUPPORTED);
  CHECK(error_has("q has a base or stride that fwd_sm90_bf16_d128 cannot take"));
  CHECK(control().launches() == launches);
}

TEST_CASE("hopper: what the kernels do not take goes to the Ampere path, with the reason") {
  const Gpu gpu;
  const auto check = [&](const char *words, auto change, int32_t dim = 64) {
    INFO(std::string(words));
    Attention attention(dim, 300, 1000);
    change(attention.problem);
    std::string reasons;
    const std::string kernel = planned(gpu, attention.problem, &reasons);
    CHECK(kernel.find("sm90") == std::string::npos);
    INFO(reasons);
    CHECK(reasons.find(std::string("fwd_sm90_bf16_d") + std::to_string(dim) + ": " + words) !=
          std::string::npos);
  };
  using Problem = flashattn_problem_t;
  check("layout_q is not DENSE", [](Problem &p) {
    p.layout_q = FLASHATTN_LAYOUT_RAGGED;
    p.max_total_q = 900;
  });
  check("layout_kv is not DENSE", [](Problem &p) {
    p.layout_kv = FLASHATTN_LAYOUT_RAGGED;
    p.max_total_kv = 3000;
  });
  check("features has SEQUSED_Q", [](Problem &p) { p.features = FLASHATTN_FEATURE_SEQUSED_Q; });
  check("features has SEQUSED_KV", [](Problem &p) { p.features = FLASHATTN_FEATURE_SEQUSED_KV; });
  check("features has DIAG_OFFSETS", [](Problem &p) { p.features = FLASHATTN_FEATURE_DIAG_OFFSETS; });
  check("features has WINDOW", [](Problem &p) {
    p.features = FLASHATTN_FEATURE_WINDOW;
    p.window_left = 10;
  });
  check("features has ALIBI", [](Problem &p) { p.features = FLASHATTN_FEATURE_ALIBI; });
  check("features has SINKS", [](Problem &p) { p.features = FLASHATTN_FEATURE_SINKS; });
  check("softcap is set", [](Problem &p) { p.softcap = 20; });
  check("dtype_bias is set", [](Problem &p) { p.dtype_bias = FLASHATTN_DTYPE_F32; });
  check("flags has BATCH_INVARIANT", [](Problem &p) { p.flags = FLASHATTN_FLAG_BATCH_INVARIANT; });
  check("softmax_scale is -1", [](Problem &p) { p.softmax_scale = -1; });
  check("num_splits is 2", [](Problem &p) { p.num_splits = 2; });
  check("dtype_o differs", [](Problem &p) { p.dtype_o = FLASHATTN_DTYPE_F32; });
  check("head_dim is 40; it takes 64", [](Problem &p) { p.head_dim = p.head_dim_v = 40; });
  check("head_dim_v is 32; it takes 64", [](Problem &p) { p.head_dim_v = 32; });
  check("max_batch is 2147483647; more than 2^31 - 1 tiles", [](Problem &p) { p.max_batch = INT32_MAX; });
  check("max_seqlen_q is 1; it is the better one from 64 on", [](Problem &p) { p.max_seqlen_q = 1; });
  check("max_batch is 1; its 8 tiles leave half of the 132 multiprocessors idle", [](Problem &p) {
    p.max_batch = 1;
    p.max_seqlen_q = 128;
    p.max_seqlen_kv = 100000;
  });
  check("max_seqlen_q is 300; with max_seqlen_kv 2147483000",
        [](Problem &p) { p.max_seqlen_kv = 2147483000; });
}

TEST_CASE("hopper: a kernel forced by name runs what it takes, also where another would be the better one") {
  const Gpu gpu;
  Attention attention(256, 1, 3000);
  attention.problem.max_batch = attention.call.batch = 1;
  std::snprintf(attention.problem.kernel, sizeof attention.problem.kernel, "fwd_sm90_bf16_d256");
  Plan plan(gpu, attention.problem);
  CHECK(std::string(plan.info.kernel) == "fwd_sm90_bf16_d256");
  REQUIRE(plan.forward(attention.call, nullptr) == FLASHATTN_STATUS_OK);
  CHECK(last_launch().grid == 8);
}

TEST_CASE("hopper: empty calls launch nothing, and forward in a capture only launches") {
  const Gpu gpu;
  Attention attention(64);
  Plan plan(gpu, attention.problem);
  int stream = 0;
  control().set_capturing(&stream, 1);
  const int launches = control().launches();
  const int memsets = control().memsets();
  const int modules = control().modules();
  REQUIRE(plan.forward(attention.call, &stream) == FLASHATTN_STATUS_OK);
  CHECK(control().launches() == launches + 1);
  attention.call.batch = 0;
  CHECK(plan.forward(attention.call, &stream) == FLASHATTN_STATUS_OK);
  attention.call.batch = 3;
  attention.call.seqlen_q = 0;
  CHECK(plan.forward(attention.call, &stream) == FLASHATTN_STATUS_OK);
  CHECK(control().launches() == launches + 1);
  CHECK(control().memsets() == memsets);
  CHECK(control().modules() == modules);
  control().set_capturing(&stream, 0);
}

TEST_CASE("hopper: the one-call interface clears the counter once a plan and stream") {
  const Gpu gpu;
  Attention attention(64);
  int stream = 0;
  const int memsets = control().memsets();
  for (int repeat = 0; repeat < 3; ++repeat) {
    REQUIRE(flashattn_attention(gpu.handle, &attention.problem, &attention.call, &stream) ==
            FLASHATTN_STATUS_OK);
  }
  CHECK(std::string(last_launch().function) == "fwd_sm90_bf16_d64");
  CHECK(control().memsets() == memsets + 1);
  control().fail("cuMemsetD32Async", 700);
  int other = 0;
  CHECK(flashattn_attention(gpu.handle, &attention.problem, &attention.call, &other) ==
        FLASHATTN_STATUS_DRIVER_ERROR);
  CHECK(error_has("cuMemsetD32Async"));
}

TEST_CASE("no tensor maps: the driver lacks them, and the Ampere path computes") {
  const Gpu gpu;
  Attention attention(64);
  std::string reasons;
  CHECK(planned(gpu, attention.problem, &reasons) == "fwd_sm80_bf16_d64");
  CHECK(reasons.find("fwd_sm90_bf16_d64: the driver of this device has no cuTensorMapEncodeTiled") !=
        std::string::npos);
}

}  // namespace flashattn
