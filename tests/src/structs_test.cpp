// SPDX-License-Identifier: Apache-2.0
// Structs of older and newer callers.
#include "src/structs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "tests/src/fixture.h"

namespace flashattn::testing {
namespace {

// A struct of another size in memory of exactly that size, so that a sanitizer sees a read or write past it.
template <typename T>
class Resized {
 public:
  Resized(const T &source, uint32_t size) : bytes_(size) {
    std::memcpy(bytes_.data(), &source, std::min<size_t>(size, sizeof source));
    std::memcpy(bytes_.data(), &size, sizeof size);
  }
  T *get() { return reinterpret_cast<T *>(bytes_.data()); }
  std::vector<char> &bytes() { return bytes_; }

 private:
  std::vector<char> bytes_;
};

TEST_CASE("an older caller's problem and call get defaults for what they do not have") {
  const CpuHandle handle;
  Fixture fixture;
  // As if features, scale, masks and the rest had not been invented.
  Resized<flashattn_problem_t> problem(fixture.problem, offsetof(flashattn_problem_t, features));
  Resized<flashattn_call_t> call(fixture.call, offsetof(flashattn_call_t, cu_seqlens_q));
  CHECK(flashattn_attention(handle, problem.get(), call.get(), nullptr) == FLASHATTN_STATUS_OK);
  CHECK(fixture.o.all_written());
  CHECK(fixture.lse.all_written());

  Resized<flashattn_options_t> options(FLASHATTN_OPTIONS_INIT, 8);
  options.get()->backend = FLASHATTN_BACKEND_CPU;
  flashattn_handle_t *other = nullptr;
  CHECK(flashattn_create(options.get(), &other) == FLASHATTN_STATUS_OK);
  flashattn_destroy(other);
}

TEST_CASE("a newer caller's struct is taken when its unknown tail is zero and refused when it is not") {
  const CpuHandle handle;
  Fixture fixture;
  CombineFixture merge;
  Resized<flashattn_problem_t> problem(fixture.problem, sizeof(flashattn_problem_t) + 24);
  Resized<flashattn_call_t> call(fixture.call, sizeof(flashattn_call_t) + 24);
  Resized<flashattn_combine_args_t> args(merge.args, sizeof(flashattn_combine_args_t) + 24);
  Resized<flashattn_options_t> options(FLASHATTN_OPTIONS_INIT, sizeof(flashattn_options_t) + 24);
  options.get()->backend = FLASHATTN_BACKEND_CPU;
  flashattn_handle_t *other = nullptr;
  CHECK(flashattn_create(options.get(), &other) == FLASHATTN_STATUS_OK);
  flashattn_destroy(other);
  CHECK(flashattn_attention(handle, problem.get(), call.get(), nullptr) == FLASHATTN_STATUS_OK);
  CHECK(flashattn_combine(handle, args.get(), nullptr) == FLASHATTN_STATUS_OK);

  fixture.o.poison();
  merge.o.poison();
  options.bytes().back() = 1;
  CHECK(flashattn_create(options.get(), &other) == FLASHATTN_STATUS_NEWER_STRUCT);
  CHECK(error_names({"options.struct_size is 144", "byte 143", "120"}));
  problem.bytes().back() = 1;
  CHECK(flashattn_attention(handle, problem.get(), call.get(), nullptr) == FLASHATTN_STATUS_NEWER_STRUCT);
  CHECK(error_names({"problem.struct_size is 288", "byte 287", "264"}));
  problem.bytes().back() = 0;
  call.bytes()[sizeof(flashattn_call_t)] = 1;
  CHECK(flashattn_attention(handle, problem.get(), call.get(), nullptr) == FLASHATTN_STATUS_NEWER_STRUCT);
  CHECK(error_names({"call.struct_size is 712", "byte 688"}));
  args.bytes().back() = 1;
  CHECK(flashattn_combine(handle, args.get(), nullptr) == FLASHATTN_STATUS_NEWER_STRUCT);
  CHECK(error_names({"args.struct_size is 232"}));
  CHECK(fixture.o.untouched());
  CHECK(merge.o.untouched());
}

// Fills through `ask` into structs of every size from the smallest to beyond ours and compares prefix and
// tail.
template <typename T, typename Ask>
void check_output_sizes(const Ask &ask) {
  T full = make_struct<T>();
  REQUIRE(ask(&full) == FLASHATTN_STATUS_OK);
  CHECK(full.struct_size == sizeof(T));
  for (const uint32_t size : {kMinStructSize, kMinStructSize + 4, static_cast<uint32_t>(sizeof(T) - 1),
                              static_cast<uint32_t>(sizeof(T)), static_cast<uint32_t>(sizeof(T) + 33)}) {
    CAPTURE(size);
    Resized<T> out(T{}, size);
    std::fill(out.bytes().begin() + 4, out.bytes().end(), '\x5a');
    REQUIRE(ask(out.get()) == FLASHATTN_STATUS_OK);
    CHECK(out.get()->struct_size == size);
    const size_t filled = std::min<size_t>(size, sizeof(T));
    CHECK(std::memcmp(out.bytes().data() + 4, reinterpret_cast<const char *>(&full) + 4, filled - 4) == 0);
    CHECK(std::all_of(out.bytes().begin() + static_cast<ptrdiff_t>(filled), out.bytes().end(),
                      [](char byte) { return byte == 0; }));
  }
  for (const uint32_t size : {0U, 7U, kMaxStructSize + 1, UINT32_MAX}) {
    T wrong{};
    wrong.struct_size = size;
    CHECK(ask(&wrong) == FLASHATTN_STATUS_STRUCT_SIZE);
    CHECK(error_names({"info.struct_size is " + std::to_string(size)}));
    wrong.struct_size = 0;
    const T untouched{};
    CHECK(std::memcmp(&wrong, &untouched, sizeof wrong) == 0);
  }
}

TEST_CASE("output structs are filled as far as they reach and zeroed beyond") {
  const CpuHandle handle;
  const Fixture fixture;
  flashattn_plan_t *plan = nullptr;
  REQUIRE(flashattn_plan_create(handle, &fixture.problem, &plan) == FLASHATTN_STATUS_OK);
  const int32_t cpu = flashattn_backend_count() - 1;
  check_output_sizes<flashattn_backend_info_t>([&](auto *info) { return flashattn_backend_info(cpu, info); });
  check_output_sizes<flashattn_device_info_t>(
      [](auto *info) { return flashattn_device_info(FLASHATTN_BACKEND_CPU, 0, info); });
  check_output_sizes<flashattn_kernel_info_t>(
      [](auto *info) { return flashattn_kernel_info(FLASHATTN_BACKEND_CPU, 0, info); });
  check_output_sizes<flashattn_handle_info_t>(
      [&](auto *info) { return flashattn_handle_info(handle, info); });
  check_output_sizes<flashattn_plan_info_t>([&](auto *info) { return flashattn_plan_info(plan, info); });
  flashattn_plan_destroy(plan);
}

TEST_CASE("init functions and macros make the same struct") {
  const auto check = [](const auto &from_macro, auto init) {
    auto from_function = from_macro;
    std::memset(&from_function, 0x5a, sizeof from_function);
    init(&from_function);
    CHECK(from_function.struct_size == sizeof from_function);
    CHECK(std::memcmp(&from_function, &from_macro, sizeof from_macro) == 0);
  };
  check(flashattn_options_t FLASHATTN_OPTIONS_INIT, flashattn_options_init);
  check(flashattn_problem_t FLASHATTN_PROBLEM_INIT, flashattn_problem_init);
  check(flashattn_call_t FLASHATTN_CALL_INIT, flashattn_call_init);
  check(flashattn_combine_args_t FLASHATTN_COMBINE_ARGS_INIT, flashattn_combine_args_init);
}

TEST_CASE("contiguous strides: in the order of the field comments, into structs of any size") {
  Fixture fixture;
  const flashattn_call_t by_hand = fixture.call;
  for (flashattn_tensor_t *tensor :
       {&fixture.call.q, &fixture.call.k, &fixture.call.v, &fixture.call.o, &fixture.call.lse}) {
    *tensor = {tensor->data, 77, 77, 77};
  }
  REQUIRE(flashattn_call_contiguous(&fixture.problem, &fixture.call) == FLASHATTN_STATUS_OK);
  CHECK(std::memcmp(&fixture.call, &by_hand, sizeof by_hand) == 0);

  Resized<flashattn_call_t> older(fixture.call, offsetof(flashattn_call_t, k));
  older.get()->q.stride_batch = 0;
  REQUIRE(flashattn_call_contiguous(&fixture.problem, older.get()) == FLASHATTN_STATUS_OK);
  CHECK(older.get()->q.stride_batch == 96);

  Fixture ragged;
  ragged.make_ragged_q();
  ragged.make_paged();
  ragged.problem.page_size = 16;
  REQUIRE(flashattn_call_contiguous(&ragged.problem, &ragged.call) == FLASHATTN_STATUS_OK);
  CHECK(ragged.call.q.stride_seq == 32);
  CHECK(ragged.call.q.stride_batch == 0);
  CHECK(ragged.call.lse.stride_head == 6);
  CHECK(ragged.call.lse.stride_seq == 1);
  CHECK(ragged.call.k.stride_batch == 16 * 16);
  CHECK(ragged.call.k.stride_seq == 16);
  CHECK(ragged.call.v.stride_head == 4);
  CHECK(ragged.call.page_table_stride == 5);
}

}  // namespace
}  // namespace flashattn::testing
