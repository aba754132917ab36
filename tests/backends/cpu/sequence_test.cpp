// SPDX-License-Identifier: Apache-2.0
// What the CPU finds wrong in lengths and page tables, and how it says so.
#include "backends/cpu/sequence.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace flashattn::cpu::test {
namespace {

struct Fixture {
  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  flashattn_call_t call = FLASHATTN_CALL_INIT;
  std::vector<int32_t> cu_q{0, 3, 5};
  std::vector<int32_t> cu_kv{0, 4, 9};
  std::vector<int32_t> used_q{2, 2};
  std::vector<int32_t> used_kv{4, 5};
  std::vector<int32_t> table{3, 0, 7, 1, 2, 7};
  std::vector<int32_t> indptr{0, 2, 5};

  Fixture(int32_t layout_q, int32_t layout_kv) {
    problem.dtype_q = problem.dtype_kv = problem.dtype_o = FLASHATTN_DTYPE_F32;
    problem.num_heads_q = problem.num_heads_kv = 1;
    problem.head_dim = problem.head_dim_v = 4;
    problem.layout_q = layout_q;
    problem.layout_kv = layout_kv;
    problem.max_batch = 2;
    problem.max_seqlen_q = 4;
    problem.max_seqlen_kv = 6;
    problem.page_size = 2;
    problem.features = FLASHATTN_FEATURE_SEQUSED_Q | FLASHATTN_FEATURE_SEQUSED_KV;
    call.batch = 2;
    call.seqlen_q = layout_q == FLASHATTN_LAYOUT_DENSE ? 3 : 0;
    call.seqlen_kv = layout_kv == FLASHATTN_LAYOUT_DENSE ? 6 : 0;
    call.total_q = 5;
    call.total_kv = 9;
    call.num_pages = 4;
    call.page_table_stride = 3;
    call.page_table_width = 3;
  }

  // The error of the call; "" when it is fine.
  std::string check() {
    call.cu_seqlens_q = cu_q.data();
    call.cu_seqlens_kv = cu_kv.data();
    call.seqused_q = used_q.data();
    call.seqused_kv = used_kv.data();
    call.page_table = table.data();
    call.page_indptr = indptr.data();
    call.page_indices = table.data();
    const Status status = check_sequences(make_shape(problem), problem, call);
    if (status == kOk) return "";
    CHECK(status == FLASHATTN_STATUS_INVALID_DATA);
    return flashattn_last_error();
  }
};

}  // namespace

TEST_CASE("check_sequences: names the array, the index, the value and the rule") {
  SUBCASE("fine") {
    CHECK(Fixture(FLASHATTN_LAYOUT_RAGGED, FLASHATTN_LAYOUT_RAGGED).check().empty());
    Fixture paged(FLASHATTN_LAYOUT_DENSE, FLASHATTN_LAYOUT_PAGED);
    paged.table = {3, 0, 7, 1, 2, 3};  // entry 2 is not used
    CHECK(paged.check().empty());
    paged.problem.layout_kv = FLASHATTN_LAYOUT_PAGED_CSR;
    paged.table = {3, 0, 1, 2, 3};
    CHECK(paged.check().empty());
  }
  SUBCASE("cu_seqlens") {
    Fixture f(FLASHATTN_LAYOUT_RAGGED, FLASHATTN_LAYOUT_RAGGED);
    f.cu_q = {-1, 3, 5};
    CHECK(f.check() == "cu_seqlens_q[0] is -1; it must be at least 0");
    f.cu_q = {0, 3, 2};
    CHECK(f.check() == "cu_seqlens_q[2] is 2; it must not fall below the entry before it, 3");
    f.cu_q = {0, 3, 6};
    CHECK(f.check() == "cu_seqlens_q[2] is 6; total_q is 5");
    f.cu_q = {0, 3, 5};
    f.cu_kv = {0, 4, 10};
    CHECK(f.check() == "cu_seqlens_kv[2] is 10; total_kv is 9");
    f.cu_kv = {0, 9, 9};
    f.problem.features = 0;
    CHECK(f.check() == "cu_seqlens_kv gives sequence 0 9 rows; max_seqlen_kv allows 6");
    f.call.seqlen_kv = 5;
    CHECK(f.check() == "cu_seqlens_kv gives sequence 0 9 rows; seqlen_kv allows 5");
  }
  SUBCASE("used lengths") {
    Fixture f(FLASHATTN_LAYOUT_DENSE, FLASHATTN_LAYOUT_DENSE);
    f.used_q = {2, 4};
    CHECK(f.check() == "seqused_q[1] is 4; it must be within 0..3, the rows of that sequence");
    f.used_q = {2, 2};
    f.used_kv = {-3, 0};
    CHECK(f.check() == "seqused_kv[0] is -3; it must be within 0..6, the rows of that sequence");
  }
  SUBCASE("pages") {
    Fixture f(FLASHATTN_LAYOUT_DENSE, FLASHATTN_LAYOUT_PAGED);
    CHECK(f.check() == "page_table[5] is 7; it must be within 0..3, the pages of the pool");
    f.used_kv = {4, 7};
    CHECK(f.check() == "seqused_kv[1] is 7; it must be within 0..6, the rows of that sequence");
    f.problem.layout_kv = FLASHATTN_LAYOUT_PAGED_CSR;
    f.used_kv = {4, 5};
    f.table = {3, 0, 1, 2, -1};
    CHECK(f.check() == "page_indices[4] is -1; it must be within 0..3, the pages of the pool");
    f.indptr = {0, 2, 1};
    CHECK(f.check() == "page_indptr[2] is 1; it must be at least 2 and never fall");
    f.indptr = {-2, 2, 5};
    CHECK(f.check() == "page_indptr[0] is -2; it must be at least 0 and never fall");
  }
  SUBCASE("a pool without pages") {
    Fixture f(FLASHATTN_LAYOUT_DENSE, FLASHATTN_LAYOUT_PAGED);
    f.call.num_pages = 0;
    f.table.clear();  // data() is NULL
    f.table.shrink_to_fit();
    f.used_kv = {0, 0};
    CHECK(f.check().empty());
    f.used_kv = {0, 1};
    CHECK(f.check() == "num_pages is 0; seqused_kv needs page_table[3], and a pool without pages has none");
    f.problem.layout_kv = FLASHATTN_LAYOUT_PAGED_CSR;
    CHECK(f.check() == "num_pages is 0; seqused_kv needs page_indices[2], and a pool without pages has none");
    f.used_kv = {0, 0};
    CHECK(f.check().empty());
  }
}

}  // namespace flashattn::cpu::test
