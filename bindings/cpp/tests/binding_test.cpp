// SPDX-License-Identifier: Apache-2.0
// What the binding adds to the C interface: ownership, checks, errors in both forms, and nothing copied.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <flashattn.hpp>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

using flashattn::BFloat16;
using flashattn::Call;
using flashattn::Error;
using flashattn::Float16;
using flashattn::Handle;
using flashattn::Plan;
using flashattn::Problem;
using flashattn::Tensor;

namespace {

std::atomic<int64_t> allocations{0};

flashattn::Options cpu() {
  return flashattn::Options().backend(flashattn::Backend::kCpu).num_threads(1);
}

// 5 queries and keys, 4 heads over 2, dimension 8.
struct Tensors {
  std::vector<float> q = std::vector<float>(2 * 5 * 4 * 8, 0.5F);
  std::vector<float> k = std::vector<float>(2 * 5 * 2 * 8, 0.25F);
  std::vector<float> v = std::vector<float>(2 * 5 * 2 * 8, 1.5F);
  std::vector<float> o = std::vector<float>(2 * 5 * 4 * 8);

  Call call() {
    Call call;
    call.q(Tensor(q, {2, 5, 4, 8}))
        .k(Tensor(k, {2, 5, 2, 8}))
        .v(Tensor(v, {2, 5, 2, 8}))
        .o(Tensor(o, {2, 5, 4, 8}));
    return call;
  }
};

// The text with which the binding or the library refuses a call.
std::string refusal(const Problem &problem, const Call &call) {
  const Handle handle(cpu());
  const auto outcome = handle.try_attention(problem, call);
  if (outcome) return "accepted";
  CHECK(outcome.error().status == FLASHATTN_STATUS_INVALID_ARGUMENT);
  return outcome.error().text;
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

// Counts what the binding allocates; the library has its own operator new inside, by way of the same function.
[[gnu::noinline]] void *operator new(size_t size) {
  ++allocations;
  if (void *memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept {
  std::free(memory);
}

TEST_CASE("pointers pass through and a call allocates nothing") {
  Tensors t;
  const Call call = t.call();
  CHECK(call.raw().q.data == t.q.data());
  CHECK(call.raw().k.data == t.k.data());
  CHECK(call.raw().v.data == t.v.data());
  CHECK(call.raw().o.data == t.o.data());
  const Handle handle(cpu());
  const Plan plan = handle.plan(Problem(call).causal());
  flashattn::Workspace workspace = plan.workspace();
  plan.forward(call, workspace);
  const int64_t before = allocations;
  for (int i = 0; i < 10; ++i) plan.forward(call, workspace);
  CHECK(allocations == before);
  CHECK(t.o[0] == 1.5F);
  CHECK(t.o.back() == 1.5F);
}

TEST_CASE("anything contiguous is a span") {
  std::vector<float> vector(8);
  const std::vector<float> constant(8);
  std::array<Float16, 8> array{};
  float plain[8] = {};
  CHECK(Tensor(vector, {1, 1, 1, 8}).data() == vector.data());
  CHECK(Tensor(array, {1, 1, 1, 8}).kDType == flashattn::DType::kF16);
  CHECK(Tensor(plain, {1, 1, 1, 8}).data() == plain);
  CHECK(Tensor(constant, {1, 1, 1, 8}).data() == constant.data());
  static_assert(std::is_same_v<decltype(Tensor(constant, {1, 1, 1, 8})), Tensor<const float>>);
  static_assert(!std::is_constructible_v<Tensor<float>, const std::vector<float> &, flashattn::Shape>);
}

TEST_CASE("handles and plans are owned, moved, and go in any order") {
  static_assert(!std::is_copy_constructible_v<Handle> && std::is_nothrow_move_constructible_v<Handle>);
  static_assert(!std::is_copy_constructible_v<Plan> && std::is_nothrow_move_constructible_v<Plan>);
  Tensors t;
  const Call call = t.call();
  std::vector<Plan> plans;
  {
    Handle first(cpu());
    Handle second = std::move(first);
    CHECK(first.get() == nullptr);
    CHECK(second.info().num_threads == 1);
    CHECK(second.info().backend == FLASHATTN_BACKEND_CPU);
    plans.push_back(second.plan(Problem(call)));
  }
  flashattn::Workspace workspace = plans[0].workspace();
  plans[0].forward(call, workspace);
  CHECK(t.o[0] == 1.5F);
}

TEST_CASE("errors carry status and text, thrown or returned") {
  Tensors t;
  const Call call = t.call();
  const Handle handle(cpu());
  const Problem bad = Problem(call).softcap(-1);
  CHECK_FALSE(handle.try_plan(bad));
  CHECK(contains(handle.try_plan(bad).error().text, "softcap is -1"));
  try {
    handle.attention(bad, call);
    FAIL("accepted");
  } catch (const Error &error) {
    CHECK(error.status() == FLASHATTN_STATUS_INVALID_ARGUMENT);
    CHECK(error.driver_error() == 0);
    CHECK(contains(error.what(), "softcap is -1"));
  }
  CHECK_THROWS_AS(Handle(flashattn::Options().backend(flashattn::Backend::kCpu).device(7)), Error);
  const auto none = Handle::try_open(flashattn::Options().backend(flashattn::Backend::kCpu).device(7));
  REQUIRE_FALSE(none);
  CHECK(none.error().status == FLASHATTN_STATUS_INVALID_DEVICE);
  CHECK(contains(none.error().text, "7"));
  CHECK(contains(refusal(Problem(call).kernel(std::string(70, 'x')), call), "NUL within its 64 bytes"));
}

TEST_CASE("a tensor must fit its span, and agree with the problem and the others") {
  Tensors t;
  const Call good = t.call();
  const Problem problem(good);
  std::vector<float> shorter(2 * 5 * 2 * 8 - 1);
  CHECK(refusal(problem, t.call().k(Tensor(shorter, {2, 5, 2, 8}))) ==
        "k has elements 159; what shape and strides need is 160");
  std::vector<Float16> half(2 * 5 * 2 * 8);
  CHECK(refusal(problem, t.call().v(Tensor(half, {2, 5, 2, 8}))) == "v has dtype 2; dtype_kv is 1");
  CHECK(refusal(problem, t.call().q(Tensor(t.q, {2, 5, 2, 16}))) == "q has heads 2; num_heads_q is 4");
  CHECK(refusal(problem, t.call().o(Tensor(t.o, {2, 5, 4, 7}))) == "o has dim 7; head_dim_v is 8");
  CHECK(refusal(problem, t.call().o(Tensor(t.o, {2, 4, 4, 8}))) == "o has seqlen 4; that of q is 5");
  CHECK(refusal(problem, t.call().v(Tensor(t.v, {1, 5, 2, 8}))) == "v has batch 1; that of k is 2");
  CHECK(contains(refusal(problem, t.call().k(Tensor(t.k, {1, 5, 2, 8})).v(Tensor(t.v, {1, 5, 2, 8}))),
                 "k has batch 1; that of the call is 2"));
  std::vector<float> lse(39);
  CHECK(contains(refusal(problem, t.call().lse_contiguous(lse)), "lse has elements 39"));
}

TEST_CASE("lists must be as long as the batch and their strides need") {
  Tensors t;
  const std::vector<int32_t> one = {5}, table = {0, 1, 2}, indptr = {0, 1};
  const std::vector<float> slopes(3, 0.1F);
  const auto refused = [&](const Call &call) { return refusal(Problem(call), call); };
  CHECK(contains(refused(t.call().seqused_kv(one)), "seqused_kv has elements 1"));
  CHECK(contains(refused(t.call().seqused_q(one)), "seqused_q has elements 1"));
  CHECK(contains(refused(t.call().diag_offsets(one)), "diag_offsets has elements 1"));
  CHECK(contains(refused(t.call().page_table(table, 2, 2)), "page_table has elements 3"));
  CHECK(contains(refused(t.call().page_csr(indptr, table)), "page_indptr has elements 2"));
  CHECK(contains(refused(t.call().alibi_slopes(slopes)), "alibi_slopes has elements 3"));
  CHECK(contains(refused(t.call().sinks(slopes)), "sinks has elements 3"));
  const std::vector<float> bias(24);
  CHECK(contains(refused(t.call().bias(bias, {0, 0, 5, 1})), "bias has elements 24"));
  const std::vector<int32_t> q3 = {0, 1, 2}, kv2 = {0, 1};
  CHECK(contains(refused(t.call().cu_seqlens_q(q3).cu_seqlens_kv(kv2)), "cu_seqlens_kv has elements 2"));
  const std::vector<int64_t> wide = {0, 1, 2};
  CHECK(contains(refused(t.call().cu_seqlens_q(q3).cu_seqlens_kv(wide)), "cu_seqlens_kv has bits 64"));
  Call ragged = t.call();
  const Problem narrow(ragged.cu_seqlens_q(q3));
  CHECK(contains(refusal(narrow, ragged.cu_seqlens_q(wide)), "cu_seqlens_q is int64 exactly when"));
}

TEST_CASE("plans tell what was decided") {
  Tensors t;
  const Handle handle(cpu());
  const Plan plan = handle.plan(Problem(t.call()).kernel("fwd_cpu_scalar"));
  CHECK(std::string(plan.info().kernel) == "fwd_cpu_scalar");
  CHECK(plan.reasons().size() == static_cast<size_t>(plan.info().reason_count));
  const auto all = flashattn::backends();
  CHECK(all.size() >= 3);
  CHECK(flashattn::devices(flashattn::Backend::kCpu).size() == 1);
}

TEST_CASE("partial results merge") {
  std::vector<float> parts = {1, 2, 3, 4}, lse = {0, 0}, o(2);
  flashattn_combine_args_t args = FLASHATTN_COMBINE_ARGS_INIT;
  args.num_parts = 2;
  args.batch = args.seqlen_q = args.num_heads = 1;
  args.head_dim_v = 2;
  args.dtype_partial = args.dtype_o = FLASHATTN_DTYPE_F32;
  args.o_partial = {parts.data(), 2, 2, 2};
  args.o_partial_stride_part = 2;
  args.lse_partial = {lse.data(), 1, 1, 1};
  args.lse_partial_stride_part = 1;
  args.o = {o.data(), 2, 2, 2};
  Handle(cpu()).combine(args);
  CHECK(o[0] == doctest::Approx(2.0));
  CHECK(o[1] == doctest::Approx(3.0));
}
