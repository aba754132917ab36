// SPDX-License-Identifier: Apache-2.0
// Every field of a call that can be wrong, with the message it gets: field, value, rule.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/src/fixture.h"

namespace flashattn::testing {
namespace {

constexpr flashattn_status_t kInvalid = FLASHATTN_STATUS_INVALID_ARGUMENT;
constexpr flashattn_status_t kNull = FLASHATTN_STATUS_NULL_POINTER;
constexpr flashattn_status_t kData = FLASHATTN_STATUS_INVALID_DATA;

// A pointer that is off by one byte.
template <typename T>
T *misaligned(T *pointer) {
  return reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(pointer) + 1);
}

struct Row {
  void (*break_it)(Fixture &fixture);
  flashattn_status_t status;
  std::vector<std::string> texts;
};

const Row kRows[] = {
    // sizes
    {[](Fixture &f) { f.call.batch = 3; }, kInvalid, {"batch is 3", "0..2", "max_batch"}},
    {[](Fixture &f) { f.call.batch = -1; }, kInvalid, {"batch is -1", "0..2"}},
    {[](Fixture &f) { f.call.seqlen_q = 4; }, kInvalid, {"seqlen_q is 4", "0..3", "max_seqlen_q"}},
    {[](Fixture &f) { f.call.seqlen_kv = 6; }, kInvalid, {"seqlen_kv is 6", "0..5", "max_seqlen_kv"}},
    {[](Fixture &f) { f.call.total_q = 6; },
     kInvalid,
     {"total_q is 6", "unless the problem's layout_q is ragged"}},
    {[](Fixture &f) { f.call.total_kv = 6; },
     kInvalid,
     {"total_kv is 6", "unless the problem's layout_kv is ragged"}},
    {[](Fixture &f) { f.call.num_pages = 6; },
     kInvalid,
     {"num_pages is 6", "unless the problem's layout_kv is paged"}},
    {[](Fixture &f) {
       f.make_ragged_q();
       f.call.total_q = 7;
     },
     kInvalid,
     {"total_q is 7", "0..6", "max_total_q"}},
    {[](Fixture &f) {
       f.make_ragged_q();
       f.call.seqlen_q = 4;
     },
     kInvalid,
     {"seqlen_q is 4", "0..3"}},
    {[](Fixture &f) {
       f.make_ragged_kv();
       f.call.total_kv = INT64_MAX;
     },
     kInvalid,
     {"total_kv is 9223372036854775807", "0..10", "max_total_kv"}},
    {[](Fixture &f) {
       f.make_paged();
       f.call.num_pages = 11;
     },
     kInvalid,
     {"num_pages is 11", "0..10", "max_pages"}},
    {[](Fixture &f) { f.call.reserved0 = 5; }, kInvalid, {"reserved0 is 5", "0"}},
    {[](Fixture &f) { f.call.reserved1 = 5; }, kInvalid, {"reserved1 is 5", "0"}},
    {[](Fixture &f) { f.call.reserved[3] = 1; }, kInvalid, {"reserved[3] is 1", "0"}},
    // tensors
    {[](Fixture &f) { f.call.q.data = nullptr; }, kNull, {"q.data is NULL"}},
    {[](Fixture &f) { f.call.k.data = nullptr; }, kNull, {"k.data is NULL"}},
    {[](Fixture &f) { f.call.v.data = nullptr; }, kNull, {"v.data is NULL"}},
    {[](Fixture &f) { f.call.o.data = nullptr; }, kNull, {"o.data is NULL"}},
    {[](Fixture &f) { f.call.q.stride_batch = -96; }, kInvalid, {"q.stride_batch is -96", "negative"}},
    {[](Fixture &f) { f.call.k.stride_seq = -1; }, kInvalid, {"k.stride_seq is -1", "negative"}},
    {[](Fixture &f) { f.call.v.stride_head = -1; }, kInvalid, {"v.stride_head is -1", "negative"}},
    {[](Fixture &f) { f.call.o.stride_seq = INT64_MIN; },
     kInvalid,
     {"o.stride_seq is -9223372036854775808", "negative"}},
    {[](Fixture &f) { f.call.lse.stride_head = -3; }, kInvalid, {"lse.stride_head is -3", "negative"}},
    {[](Fixture &f) { f.call.q.stride_batch = INT64_MAX; },
     kInvalid,
     {"q.stride_batch is 9223372036854775807", "int64"}},
    {[](Fixture &f) { f.call.k.stride_seq = INT64_MAX / 4; },
     kInvalid,
     {"k.stride_seq is 2305843009213693951", "int64"}},
    {[](Fixture &f) { f.call.v.stride_head = INT64_MAX / 4; },
     kInvalid,
     {"v.stride_head is 2305843009213693951", "bytes leaves int64"}},
    {[](Fixture &f) { f.call.o.stride_batch = INT64_MAX / 2; }, kInvalid, {"o.stride_batch is", "int64"}},
    {[](Fixture &f) { f.call.lse.stride_batch = INT64_MAX / 2; }, kInvalid, {"lse.stride_batch is", "int64"}},
    {[](Fixture &f) { f.call.o.stride_batch = 0; }, kInvalid, {"o.stride_batch is 0", "overlap", "extent 2"}},
    {[](Fixture &f) { f.call.o.stride_seq = 0; }, kInvalid, {"o.stride_seq is 0", "overlap", "extent 3"}},
    {[](Fixture &f) { f.call.o.stride_head = 0; }, kInvalid, {"o.stride_head is 0", "overlap", "extent 4"}},
    {[](Fixture &f) { f.call.o.stride_head = 3; }, kInvalid, {"o.stride_head is 3", "4 elements"}},
    {[](Fixture &f) { f.call.o.stride_batch = f.call.o.stride_seq; },
     kInvalid,
     {"o.stride_batch is 16", "overlap", "stride_seq is 16"}},
    {[](Fixture &f) { f.call.o.stride_seq = 8; },
     kInvalid,
     {"o.stride_seq is 8", "overlap", "stride_head is 4 with extent 4"}},
    {[](Fixture &f) { f.call.lse.stride_head = 0; }, kInvalid, {"lse.stride_head is 0", "overlap"}},
    {[](Fixture &f) { f.call.lse.stride_batch = 3; }, kInvalid, {"lse.stride_batch is 3", "overlap"}},
    {[](Fixture &f) { f.call.q.data = misaligned(f.q.data()); },
     kInvalid,
     {"q.data is 0x", "aligned", "4 bytes"}},
    {[](Fixture &f) { f.call.o.data = misaligned(f.o.data()); },
     kInvalid,
     {"o.data is 0x", "aligned", "4 bytes"}},
    {[](Fixture &f) { f.call.lse.data = misaligned(f.lse.data()); }, kInvalid, {"lse.data is 0x", "aligned"}},
    {[](Fixture &f) { f.call.q.data = f.o.data(); }, kInvalid, {"o.data is 0x", "overlap q.data"}},
    {[](Fixture &f) { f.call.k.data = f.o.data(); }, kInvalid, {"o.data is 0x", "overlap k.data"}},
    {[](Fixture &f) { f.call.v.data = f.o.data(); }, kInvalid, {"o.data is 0x", "overlap v.data"}},
    {[](Fixture &f) { f.call.lse.data = f.o.data(); }, kInvalid, {"o.data is 0x", "overlap lse.data"}},
    {[](Fixture &f) { f.call.lse.data = f.q.data(); }, kInvalid, {"lse.data is 0x", "overlap q.data"}},
    {[](Fixture &f) { f.call.lse.data = f.k.data(); }, kInvalid, {"lse.data is 0x", "overlap k.data"}},
    {[](Fixture &f) { f.call.lse.data = f.v.data(); }, kInvalid, {"lse.data is 0x", "overlap v.data"}},
    // lengths: there when declared, absent when not
    {[](Fixture &f) { f.call.cu_seqlens_q = f.cu_seqlens_q; },
     kInvalid,
     {"cu_seqlens_q is 0x", "NULL", "layout_q"}},
    {[](Fixture &f) { f.call.cu_seqlens_kv = f.cu_seqlens_kv; },
     kInvalid,
     {"cu_seqlens_kv is 0x", "layout_kv"}},
    {[](Fixture &f) { f.call.seqused_q = f.seqused_kv; }, kInvalid, {"seqused_q is 0x", "FEATURE_SEQUSED_Q"}},
    {[](Fixture &f) { f.call.seqused_kv = f.seqused_kv; },
     kInvalid,
     {"seqused_kv is 0x", "FEATURE_SEQUSED_KV"}},
    {[](Fixture &f) { f.call.diag_offsets = f.seqused_kv; },
     kInvalid,
     {"diag_offsets is 0x", "FEATURE_DIAG_OFFSETS"}},
    {[](Fixture &f) {
       f.make_ragged_q();
       f.call.cu_seqlens_q = nullptr;
     },
     kNull,
     {"cu_seqlens_q is NULL", "FLASHATTN_LAYOUT_RAGGED"}},
    {[](Fixture &f) {
       f.make_ragged_kv();
       f.call.cu_seqlens_kv = nullptr;
     },
     kNull,
     {"cu_seqlens_kv is NULL", "FLASHATTN_LAYOUT_RAGGED"}},
    {[](Fixture &f) {
       f.make_ragged_kv();
       f.call.cu_seqlens_kv = misaligned(f.cu_seqlens_kv);
     },
     kInvalid,
     {"cu_seqlens_kv is 0x", "aligned", "4 bytes"}},
    {[](Fixture &f) {
       f.make_ragged_q();
       f.problem.flags = FLASHATTN_FLAG_CU_SEQLENS_INT64;
       f.call.cu_seqlens_q = f.cu_seqlens_q + (reinterpret_cast<uintptr_t>(f.cu_seqlens_q) % 8 == 0 ? 1 : 0);
     },
     kInvalid,
     {"cu_seqlens_q is 0x", "aligned", "8 bytes"}},
    {[](Fixture &f) { f.problem.features = FLASHATTN_FEATURE_SEQUSED_Q; }, kNull, {"seqused_q is NULL"}},
    {[](Fixture &f) { f.problem.features = FLASHATTN_FEATURE_SEQUSED_KV; }, kNull, {"seqused_kv is NULL"}},
    {[](Fixture &f) { f.problem.features = FLASHATTN_FEATURE_DIAG_OFFSETS; },
     kNull,
     {"diag_offsets is NULL"}},
    // pages
    {[](Fixture &f) { f.call.page_table = f.pages; },
     kInvalid,
     {"page_table is 0x", "FLASHATTN_LAYOUT_PAGED"}},
    {[](Fixture &f) { f.call.page_table_width = 5; },
     kInvalid,
     {"page_table_width is 5", "FLASHATTN_LAYOUT_PAGED"}},
    {[](Fixture &f) { f.call.page_table_stride = 5; },
     kInvalid,
     {"page_table_stride is 5", "FLASHATTN_LAYOUT_PAGED"}},
    {[](Fixture &f) { f.call.page_indptr = f.page_indptr; }, kInvalid, {"page_indptr is 0x", "PAGED_CSR"}},
    {[](Fixture &f) { f.call.page_indices = f.pages; }, kInvalid, {"page_indices is 0x", "PAGED_CSR"}},
    {[](Fixture &f) {
       f.make_paged();
       f.call.page_table = nullptr;
     },
     kNull,
     {"page_table is NULL", "FLASHATTN_LAYOUT_PAGED"}},
    {[](Fixture &f) {
       f.make_paged();
       f.call.page_table_width = -1;
     },
     kInvalid,
     {"page_table_width is -1", "negative"}},
    {[](Fixture &f) {
       f.make_paged();
       f.call.page_table_stride = -5;
     },
     kInvalid,
     {"page_table_stride is -5", "negative"}},
    {[](Fixture &f) {
       f.make_paged();
       f.call.page_table_stride = INT64_MAX;
     },
     kInvalid,
     {"page_table_stride is 9223372036854775807", "int64"}},
    {[](Fixture &f) {
       f.make_paged_csr();
       f.call.page_indptr = nullptr;
     },
     kNull,
     {"page_indptr is NULL", "PAGED_CSR"}},
    {[](Fixture &f) {
       f.make_paged_csr();
       f.call.page_indices = nullptr;
     },
     kNull,
     {"page_indices is NULL", "PAGED_CSR"}},
    {[](Fixture &f) {
       f.make_paged_csr();
       f.call.page_table = f.pages;
     },
     kInvalid,
     {"page_table is 0x", "FLASHATTN_LAYOUT_PAGED"}},
    // bias and values per head
    {[](Fixture &f) { f.call.bias.data = f.bias; }, kInvalid, {"bias.data is 0x", "dtype_bias"}},
    {[](Fixture &f) { f.problem.dtype_bias = FLASHATTN_DTYPE_F32; }, kNull, {"bias.data is NULL"}},
    {[](Fixture &f) {
       f.problem.dtype_bias = FLASHATTN_DTYPE_F32;
       f.call.bias = {f.bias, 0, 0, 5, -1};
     },
     kInvalid,
     {"bias.stride_kv is -1", "negative"}},
    {[](Fixture &f) {
       f.problem.dtype_bias = FLASHATTN_DTYPE_F32;
       f.call.bias = {f.bias, INT64_MAX, 0, 5, 1};
     },
     kInvalid,
     {"bias.stride_batch is 9223372036854775807", "int64"}},
    {[](Fixture &f) {
       f.problem.dtype_bias = FLASHATTN_DTYPE_F16;
       f.call.bias = {misaligned(f.bias), 0, 0, 5, 1};
     },
     kInvalid,
     {"bias.data is 0x", "aligned", "2 bytes"}},
    {[](Fixture &f) { f.call.alibi_slopes.data = f.per_head; },
     kInvalid,
     {"alibi_slopes.data is 0x", "FLASHATTN_FEATURE_ALIBI"}},
    {[](Fixture &f) { f.problem.features = FLASHATTN_FEATURE_ALIBI; }, kNull, {"alibi_slopes.data is NULL"}},
    {[](Fixture &f) {
       f.problem.features = FLASHATTN_FEATURE_ALIBI;
       f.call.alibi_slopes = {f.per_head, -4, 1};
     },
     kInvalid,
     {"alibi_slopes.stride_batch is -4", "negative"}},
    {[](Fixture &f) { f.call.sinks.data = f.per_head; },
     kInvalid,
     {"sinks.data is 0x", "FLASHATTN_FEATURE_SINKS"}},
    {[](Fixture &f) { f.problem.features = FLASHATTN_FEATURE_SINKS; }, kNull, {"sinks.data is NULL"}},
    {[](Fixture &f) {
       f.problem.features = FLASHATTN_FEATURE_SINKS;
       f.call.sinks = {f.per_head, 0, INT64_MAX / 2};
     },
     kInvalid,
     {"sinks.stride_head is 4611686018427387903", "int64"}},
    {[](Fixture &f) { f.call.descale_q.data = f.per_head; }, kInvalid, {"descale_q.data is 0x", "8-bit"}},
    {[](Fixture &f) { f.call.descale_k.data = f.per_head; }, kInvalid, {"descale_k.data is 0x", "8-bit"}},
    {[](Fixture &f) { f.call.descale_v.data = f.per_head; }, kInvalid, {"descale_v.data is 0x", "8-bit"}},
    // the backward operation's fields
    {[](Fixture &f) { f.call.grad_o.data = f.q.data(); }, kInvalid, {"grad_o is 0x", "FLASHATTN_OP_FORWARD"}},
    {[](Fixture &f) { f.call.grad_q.stride_seq = 8; },
     kInvalid,
     {"grad_q has a stride of 8", "FLASHATTN_OP_FORWARD"}},
    {[](Fixture &f) { f.call.grad_k.data = f.q.data(); }, kInvalid, {"grad_k is 0x", "FLASHATTN_OP_FORWARD"}},
    {[](Fixture &f) { f.call.grad_v.stride_head = -1; }, kInvalid, {"grad_v has a stride of -1"}},
    {[](Fixture &f) { f.call.grad_bias.stride_kv = 1; }, kInvalid, {"grad_bias has a stride of 1"}},
    {[](Fixture &f) { f.call.grad_sinks = f.per_head; },
     kInvalid,
     {"grad_sinks is 0x", "FLASHATTN_OP_FORWARD"}},
    // struct size
    {[](Fixture &f) { f.call.struct_size = 4; },
     FLASHATTN_STATUS_STRUCT_SIZE,
     {"call.struct_size is 4", "sizeof"}},
    // what only reading the lengths shows; the CPU reads them before it writes
    {[](Fixture &f) {
       f.make_ragged_q();
       f.cu_seqlens_q[1] = 7;
     },
     kData,
     {"cu_seqlens_q[", "7"}},
    {[](Fixture &f) {
       f.make_ragged_kv();
       f.cu_seqlens_kv[1] = -1;
     },
     kData,
     {"cu_seqlens_kv[", "-1"}},
    {[](Fixture &f) {
       f.make_paged();
       f.seqused_kv[1] = 6;
     },
     kData,
     {"seqused_kv[1] is 6"}},
    {[](Fixture &f) {
       f.make_paged();
       f.pages[7] = 10;
     },
     kData,
     {"page_table[", "is 10"}},
    {[](Fixture &f) {
       f.make_paged_csr();
       f.page_indptr[0] = -1;
     },
     kData,
     {"page_indptr[0] is -1"}},
    {[](Fixture &f) {
       f.make_paged();
       f.call.num_pages = 0;
       f.call.page_table = nullptr;
     },
     kData,
     {"num_pages is 0", "page_table[0]"}},
    {[](Fixture &f) {
       f.make_paged_csr();
       f.call.num_pages = 0;
       f.call.page_indices = nullptr;
     },
     kData,
     {"num_pages is 0", "page_indices["}},
};

TEST_CASE("a wrong field of a call is named with its value and the rule, and nothing is written") {
  const CpuHandle handle;
  int number = 0;
  for (const Row &row : kRows) {
    CAPTURE(number++);
    CAPTURE(row.texts[0]);
    Fixture fixture;
    row.break_it(fixture);
    flashattn_plan_t *plan = nullptr;
    REQUIRE(flashattn_plan_create(handle, &fixture.problem, &plan) == FLASHATTN_STATUS_OK);
    flashattn_plan_info_t info{};
    info.struct_size = sizeof info;
    REQUIRE(flashattn_plan_info(plan, &info) == FLASHATTN_STATUS_OK);
    std::vector<char> workspace(info.workspace_size + info.workspace_alignment);
    void *aligned = workspace.data();
    size_t room = workspace.size();
    REQUIRE(std::align(info.workspace_alignment, info.workspace_size, aligned, room) != nullptr);
    REQUIRE(flashattn_workspace_init(plan, aligned, room, nullptr) == FLASHATTN_STATUS_OK);

    CHECK(flashattn_forward(plan, &fixture.call, aligned, room, nullptr) == row.status);
    const std::string error = flashattn_last_error();
    CAPTURE(error);
    CHECK(error_names(row.texts));
    CHECK(flashattn_attention(handle, &fixture.problem, &fixture.call, nullptr) == row.status);
    CHECK(flashattn_last_error() == error);
    CHECK(fixture.o.untouched());
    CHECK(fixture.lse.untouched());
    flashattn_plan_destroy(plan);
  }
}

TEST_CASE("the fixture's layouts are valid before they are broken") {
  const CpuHandle handle;
  for (void (Fixture::*make)() : {static_cast<void (Fixture::*)()>(nullptr), &Fixture::make_ragged_q,
                                  &Fixture::make_ragged_kv, &Fixture::make_paged, &Fixture::make_paged_csr}) {
    Fixture fixture;
    if (make != nullptr) (fixture.*make)();
    CHECK(flashattn_attention(handle, &fixture.problem, &fixture.call, nullptr) == FLASHATTN_STATUS_OK);
    CHECK(fixture.o.all_written());
    CHECK(fixture.lse.all_written());
  }
}

TEST_CASE("a call that writes nothing needs no data pointers and keeps the rules of its fields") {
  const CpuHandle handle;
  const auto strip = [](Fixture &fixture) {
    for (flashattn_tensor_t *tensor : {&fixture.call.q, &fixture.call.k, &fixture.call.v, &fixture.call.o}) {
      tensor->data = nullptr;
    }
    fixture.call.lse.data = nullptr;
    fixture.call.cu_seqlens_q = nullptr;
  };
  Fixture no_batch;
  no_batch.call.batch = 0;
  strip(no_batch);
  CHECK(flashattn_attention(handle, &no_batch.problem, &no_batch.call, nullptr) == FLASHATTN_STATUS_OK);
  no_batch.call.q.stride_seq = -1;
  CHECK(flashattn_attention(handle, &no_batch.problem, &no_batch.call, nullptr) == kInvalid);

  Fixture no_queries;
  no_queries.call.seqlen_q = 0;
  strip(no_queries);
  CHECK(flashattn_attention(handle, &no_queries.problem, &no_queries.call, nullptr) == FLASHATTN_STATUS_OK);

  Fixture no_rows;
  no_rows.make_ragged_q();
  no_rows.call.total_q = 0;
  strip(no_rows);
  CHECK(flashattn_attention(handle, &no_rows.problem, &no_rows.call, nullptr) == FLASHATTN_STATUS_OK);

  Fixture no_maxima;
  no_maxima.problem.max_batch = 0;
  no_maxima.call.batch = 0;
  strip(no_maxima);
  CHECK(flashattn_attention(handle, &no_maxima.problem, &no_maxima.call, nullptr) == FLASHATTN_STATUS_OK);

  // Without keys K and V are not read, and every row is empty.
  Fixture no_keys;
  no_keys.call.seqlen_kv = 0;
  no_keys.call.k.data = nullptr;
  no_keys.call.v.data = nullptr;
  CHECK(flashattn_attention(handle, &no_keys.problem, &no_keys.call, nullptr) == FLASHATTN_STATUS_OK);
  for (size_t i = 0; i < no_keys.o.size(); ++i) CHECK(no_keys.o.data()[i] == 0.0F);
}

TEST_CASE("an output stride of 0 is legal along a dimension of extent 1") {
  const CpuHandle handle;
  Fixture fixture;
  fixture.call.batch = 1;
  fixture.call.o.stride_batch = 0;
  fixture.call.lse.stride_batch = 0;
  CHECK(flashattn_attention(handle, &fixture.problem, &fixture.call, nullptr) == FLASHATTN_STATUS_OK);
}

}  // namespace
}  // namespace flashattn::testing
