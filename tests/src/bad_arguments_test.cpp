// SPDX-License-Identifier: Apache-2.0
// Wrong options, combine arguments, objects and output parameters.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/src/fixture.h"

namespace flashattn::testing {
namespace {

constexpr flashattn_status_t kOk = FLASHATTN_STATUS_OK;
constexpr flashattn_status_t kInvalid = FLASHATTN_STATUS_INVALID_ARGUMENT;
constexpr flashattn_status_t kNull = FLASHATTN_STATUS_NULL_POINTER;
constexpr flashattn_status_t kUnsupported = FLASHATTN_STATUS_UNSUPPORTED;

void *FLASHATTN_CALL no_memory(void * /*user*/, size_t /*size*/, size_t /*alignment*/) {
  return nullptr;
}
void FLASHATTN_CALL no_free(void * /*user*/, void * /*memory*/, size_t /*size*/, size_t /*alignment*/) {}

struct OptionsRow {
  void (*break_it)(flashattn_options_t &options);
  flashattn_status_t status;
  std::vector<std::string> texts;
};

const OptionsRow kOptionsRows[] = {
    {[](flashattn_options_t &o) { o.backend = 9; }, kInvalid, {"backend is 9", "FLASHATTN_BACKEND_AUTO"}},
    {[](flashattn_options_t &o) { o.backend = -1; }, kInvalid, {"backend is -1"}},
    {[](flashattn_options_t &o) { o.device = -1; },
     FLASHATTN_STATUS_INVALID_DEVICE,
     {"device is -1", "negative"}},
    {[](flashattn_options_t &o) { o.device = 1; },
     FLASHATTN_STATUS_INVALID_DEVICE,
     {"device is 1", "cpu", "1 device"}},
    {[](flashattn_options_t &o) { o.num_threads = -4; }, kInvalid, {"num_threads is -4", "negative"}},
    {[](flashattn_options_t &o) { o.num_threads = INT32_MAX; },
     kInvalid,
     {"num_threads is 2147483647", "1024"}},
    {[](flashattn_options_t &o) { o.flags = 6; }, kUnsupported, {"flags is 0x6", "0x1"}},
    {[](flashattn_options_t &o) { o.context = &o; }, kInvalid, {"context is 0x", "NULL"}},
    {[](flashattn_options_t &o) { o.alloc = no_memory; }, kInvalid, {"free is NULL", "together"}},
    {[](flashattn_options_t &o) { o.free = no_free; }, kInvalid, {"alloc is NULL", "together"}},
    {[](flashattn_options_t &o) {
       o.alloc = no_memory;
       o.free = no_free;
     },
     FLASHATTN_STATUS_OUT_OF_MEMORY,
     {"memory"}},
    {[](flashattn_options_t &o) { o.reserved[2] = 3; }, kInvalid, {"reserved[2] is 3", "0"}},
    {[](flashattn_options_t &o) { o.struct_size = 1; },
     FLASHATTN_STATUS_STRUCT_SIZE,
     {"options.struct_size is 1", "sizeof"}},
};

TEST_CASE("a wrong option is named with its value and the rule, and the handle is NULL") {
  for (const OptionsRow &row : kOptionsRows) {
    CAPTURE(row.texts[0]);
    flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
    options.backend = FLASHATTN_BACKEND_CPU;
    row.break_it(options);
    auto *handle = reinterpret_cast<flashattn_handle_t *>(&options);
    CHECK(flashattn_create(&options, &handle) == row.status);
    CHECK(handle == nullptr);
    CAPTURE(std::string(flashattn_last_error()));
    CHECK(error_names(row.texts));
  }
}

TEST_CASE("a named backend that cannot be opened is an error with the reason, never another backend") {
  for (int32_t index = 0; index < flashattn_backend_count(); ++index) {
    flashattn_backend_info_t info{};
    info.struct_size = sizeof info;
    REQUIRE(flashattn_backend_info(index, &info) == kOk);
    CAPTURE(std::string(info.name));
    CHECK((info.status == kOk) == std::string(info.reason).empty());
    CHECK((info.status == kOk) == (info.device_count > 0));
    if (info.status == kOk) continue;
    flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
    options.backend = info.backend;
    flashattn_handle_t *handle = nullptr;
    CHECK(flashattn_create(&options, &handle) == info.status);
    CHECK(handle == nullptr);
    CHECK(error_names({info.reason}));
    if (info.status == FLASHATTN_STATUS_NOT_BUILT)
      CHECK(error_names({info.name, "not in this build", "-DFLASHATTN_"}));
  }
}

struct CombineRow {
  void (*break_it)(CombineFixture &fixture);
  flashattn_status_t status;
  std::vector<std::string> texts;
};

const CombineRow kCombineRows[] = {
    {[](CombineFixture &f) { f.args.num_parts = 0; }, kInvalid, {"num_parts is 0", "at least 1"}},
    {[](CombineFixture &f) { f.args.batch = -1; }, kInvalid, {"batch is -1", "negative"}},
    {[](CombineFixture &f) { f.args.seqlen_q = -1; }, kInvalid, {"seqlen_q is -1", "negative"}},
    {[](CombineFixture &f) { f.args.num_heads = 0; }, kInvalid, {"num_heads is 0", "at least 1"}},
    {[](CombineFixture &f) { f.args.head_dim_v = 0; }, kInvalid, {"head_dim_v is 0", "at least 1"}},
    {[](CombineFixture &f) { f.args.dtype_partial = 0; },
     kInvalid,
     {"dtype_partial is 0", "FLASHATTN_DTYPE_F32"}},
    {[](CombineFixture &f) { f.args.dtype_o = FLASHATTN_DTYPE_U8; }, kInvalid, {"dtype_o is 6"}},
    {[](CombineFixture &f) {
       f.args.batch = INT32_MAX;
       f.args.seqlen_q = INT32_MAX;
     },
     kInvalid,
     {"batch * seqlen_q * num_heads * head_dim_v is 2147483647 * 2147483647 * 4 * 4", "2^52"}},
    {[](CombineFixture &f) { f.args.o_partial.data = nullptr; }, kNull, {"o_partial.data is NULL"}},
    {[](CombineFixture &f) { f.args.lse_partial.data = nullptr; }, kNull, {"lse_partial.data is NULL"}},
    {[](CombineFixture &f) { f.args.o.data = nullptr; }, kNull, {"o.data is NULL"}},
    {[](CombineFixture &f) { f.args.o_partial_stride_part = -1; }, kInvalid, {"o_partial_stride_part is -1"}},
    {[](CombineFixture &f) { f.args.lse_partial_stride_part = -1; },
     kInvalid,
     {"lse_partial_stride_part is -1"}},
    {[](CombineFixture &f) { f.args.o_partial_stride_part = INT64_MAX; },
     kInvalid,
     {"o_partial.stride_part is 9223372036854775807", "int64"}},
    {[](CombineFixture &f) { f.args.o_partial.stride_seq = -16; }, kInvalid, {"o_partial.stride_seq is -16"}},
    {[](CombineFixture &f) { f.args.o.stride_head = 0; }, kInvalid, {"o.stride_head is 0", "overlap"}},
    {[](CombineFixture &f) { f.args.lse.stride_batch = 0; }, kInvalid, {"lse.stride_batch is 0", "overlap"}},
    {[](CombineFixture &f) { f.args.o.data = f.o_partial.data(); },
     kInvalid,
     {"o.data is 0x", "overlap o_partial"}},
    {[](CombineFixture &f) { f.args.lse.data = f.o.data(); }, kInvalid, {"lse.data is 0x", "overlap o.data"}},
    {[](CombineFixture &f) { f.args.lse.data = f.lse_partial.data(); },
     kInvalid,
     {"lse.data is 0x", "overlap lse_partial"}},
    {[](CombineFixture &f) { f.args.reserved[1] = 1; }, kInvalid, {"reserved[1] is 1", "0"}},
    {[](CombineFixture &f) { f.args.struct_size = 0; },
     FLASHATTN_STATUS_STRUCT_SIZE,
     {"args.struct_size is 0", "sizeof"}},
};

TEST_CASE("a wrong combine argument is named with its value and the rule, and nothing is written") {
  const CpuHandle handle;
  for (const CombineRow &row : kCombineRows) {
    CAPTURE(row.texts[0]);
    CombineFixture fixture;
    row.break_it(fixture);
    CHECK(flashattn_combine(handle, &fixture.args, nullptr) == row.status);
    CAPTURE(std::string(flashattn_last_error()));
    CHECK(error_names(row.texts));
    CHECK(fixture.o.untouched());
    CHECK(fixture.lse.untouched());
  }
  CombineFixture fixture;
  CHECK(flashattn_combine(handle, &fixture.args, nullptr) == kOk);
  CHECK(fixture.o.all_written());
  CHECK(fixture.lse.all_written());
}

TEST_CASE("merging nothing needs no pointers") {
  const CpuHandle handle;
  CombineFixture fixture;
  fixture.args.batch = 0;
  for (flashattn_tensor_t *tensor : {&fixture.args.o_partial, &fixture.args.lse_partial, &fixture.args.o}) {
    tensor->data = nullptr;
  }
  fixture.args.lse.data = nullptr;
  CHECK(flashattn_combine(handle, &fixture.args, nullptr) == kOk);
}

TEST_CASE("NULL where a pointer is needed is named") {
  const CpuHandle handle;
  Fixture fixture;
  flashattn_plan_t *plan = nullptr;
  REQUIRE(flashattn_plan_create(handle, &fixture.problem, &plan) == kOk);
  flashattn_handle_info_t handle_info{};
  handle_info.struct_size = sizeof handle_info;
  flashattn_plan_info_t plan_info{};
  plan_info.struct_size = sizeof plan_info;
  flashattn_plan_t *other = nullptr;
  const char *reason = nullptr;
  CombineFixture combine;
  const struct {
    flashattn_status_t status;
    std::string error;
  } answers[] = {
#define ANSWER(call) {call, flashattn_last_error()}
      ANSWER(flashattn_create(nullptr, nullptr)),
      ANSWER(flashattn_handle_info(nullptr, &handle_info)),
      ANSWER(flashattn_handle_info(handle, nullptr)),
      ANSWER(flashattn_plan_create(nullptr, &fixture.problem, &other)),
      ANSWER(flashattn_plan_create(handle, nullptr, &other)),
      ANSWER(flashattn_plan_create(handle, &fixture.problem, nullptr)),
      ANSWER(flashattn_plan_info(nullptr, &plan_info)),
      ANSWER(flashattn_plan_info(plan, nullptr)),
      ANSWER(flashattn_plan_reason(nullptr, 0, &reason)),
      ANSWER(flashattn_plan_reason(plan, 0, nullptr)),
      ANSWER(flashattn_call_contiguous(nullptr, &fixture.call)),
      ANSWER(flashattn_call_contiguous(&fixture.problem, nullptr)),
      ANSWER(flashattn_workspace_init(nullptr, nullptr, 0, nullptr)),
      ANSWER(flashattn_forward(nullptr, &fixture.call, nullptr, 0, nullptr)),
      ANSWER(flashattn_forward(plan, nullptr, nullptr, 0, nullptr)),
      ANSWER(flashattn_attention(nullptr, &fixture.problem, &fixture.call, nullptr)),
      ANSWER(flashattn_attention(handle, nullptr, &fixture.call, nullptr)),
      ANSWER(flashattn_attention(handle, &fixture.problem, nullptr, nullptr)),
      ANSWER(flashattn_combine(nullptr, &combine.args, nullptr)),
      ANSWER(flashattn_combine(handle, nullptr, nullptr)),
      ANSWER(flashattn_device_count(FLASHATTN_BACKEND_CPU, nullptr)),
      ANSWER(flashattn_backend_info(0, nullptr)),
      ANSWER(flashattn_device_info(FLASHATTN_BACKEND_CPU, 0, nullptr)),
      ANSWER(flashattn_kernel_info(FLASHATTN_BACKEND_CPU, 0, nullptr)),
#undef ANSWER
  };
  for (const auto &answer : answers) {
    CAPTURE(answer.error);
    CHECK(answer.status == kNull);
    CHECK(answer.error.find(" is NULL") != std::string::npos);
  }
  flashattn_destroy(nullptr);
  flashattn_plan_destroy(nullptr);
  flashattn_options_init(nullptr);
  flashattn_problem_init(nullptr);
  flashattn_call_init(nullptr);
  flashattn_combine_args_init(nullptr);
  flashattn_plan_destroy(plan);
}

TEST_CASE("indices and backends that do not exist are named") {
  flashattn_backend_info_t backend{};
  backend.struct_size = sizeof backend;
  CHECK(flashattn_backend_info(-1, &backend) == kInvalid);
  CHECK(error_names({"index is -1", "0..2"}));
  CHECK(flashattn_backend_info(flashattn_backend_count(), &backend) == kInvalid);
  flashattn_kernel_info_t kernel{};
  kernel.struct_size = sizeof kernel;
  CHECK(flashattn_kernel_info(FLASHATTN_BACKEND_CPU, 1000, &kernel) == kInvalid);
  CHECK(error_names({"index is 1000", "kernels"}));
  CHECK(flashattn_kernel_info(FLASHATTN_BACKEND_AUTO, 0, &kernel) == kInvalid);
  CHECK(error_names({"backend is 0"}));
  int32_t count = 7;
  CHECK(flashattn_device_count(12, &count) == kInvalid);
  CHECK(count == 0);
  CHECK(error_names({"backend is 12"}));
  flashattn_device_info_t device{};
  device.struct_size = sizeof device;
  CHECK(flashattn_device_info(FLASHATTN_BACKEND_CPU, 1, &device) == FLASHATTN_STATUS_INVALID_DEVICE);
  CHECK(error_names({"ordinal is 1", "cpu", "1 device"}));
}

}  // namespace
}  // namespace flashattn::testing
