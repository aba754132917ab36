// SPDX-License-Identifier: Apache-2.0
// Every field of a problem that can be wrong, with the message it gets: field, value, rule.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/src/fixture.h"

namespace flashattn::testing {
namespace {

constexpr flashattn_status_t kInvalid = FLASHATTN_STATUS_INVALID_ARGUMENT;
constexpr flashattn_status_t kUnsupported = FLASHATTN_STATUS_UNSUPPORTED;

struct Row {
  void (*break_it)(Fixture &fixture);
  flashattn_status_t status;
  std::vector<std::string> texts;
};

const Row kRows[] = {
    {[](Fixture &f) { f.problem.op = 1; }, kUnsupported, {"op is 1", "FLASHATTN_OP_FORWARD"}},
    {[](Fixture &f) { f.problem.dtype_q = 0; }, kInvalid, {"dtype_q is 0", "FLASHATTN_DTYPE_F32"}},
    {[](Fixture &f) { f.problem.dtype_q = FLASHATTN_DTYPE_U8; },
     kInvalid,
     {"dtype_q is 6", "FLASHATTN_DTYPE_F32"}},
    {[](Fixture &f) { f.problem.dtype_q = FLASHATTN_DTYPE_FP8_E4M3; },
     kUnsupported,
     {"dtype_q is 4", "8-bit"}},
    {[](Fixture &f) { f.problem.dtype_kv = -1; }, kInvalid, {"dtype_kv is -1", "FLASHATTN_DTYPE_F32"}},
    {[](Fixture &f) { f.problem.dtype_kv = FLASHATTN_DTYPE_I8; }, kUnsupported, {"dtype_kv is 5", "8-bit"}},
    {[](Fixture &f) { f.problem.dtype_o = 7; }, kInvalid, {"dtype_o is 7", "0 (dtype_q)"}},
    {[](Fixture &f) { f.problem.dtype_o = FLASHATTN_DTYPE_U8; }, kInvalid, {"dtype_o is 6"}},
    {[](Fixture &f) { f.problem.dtype_bias = FLASHATTN_DTYPE_I8; }, kInvalid, {"dtype_bias is 5", "_U8 (6)"}},
    {[](Fixture &f) {
       f.make_ragged_q();
       f.problem.dtype_bias = FLASHATTN_DTYPE_F32;
     },
     kUnsupported,
     {"dtype_bias is 1", "ragged Q"}},
    {[](Fixture &f) { f.problem.layout_q = FLASHATTN_LAYOUT_PAGED; },
     kInvalid,
     {"layout_q is 2", "_RAGGED (1)"}},
    {[](Fixture &f) { f.problem.layout_q = -1; }, kInvalid, {"layout_q is -1"}},
    {[](Fixture &f) { f.problem.layout_kv = 4; }, kInvalid, {"layout_kv is 4", "_PAGED_CSR (3)"}},
    {[](Fixture &f) { f.problem.num_heads_q = 0; }, kInvalid, {"num_heads_q is 0", "at least 1"}},
    {[](Fixture &f) { f.problem.num_heads_kv = 0; }, kInvalid, {"num_heads_kv is 0", "at least 1"}},
    {[](Fixture &f) { f.problem.num_heads_kv = 3; },
     kInvalid,
     {"num_heads_kv is 3", "divide num_heads_q", "4"}},
    {[](Fixture &f) { f.problem.head_dim = 0; }, kInvalid, {"head_dim is 0", "at least 1"}},
    {[](Fixture &f) { f.problem.head_dim_v = -8; }, kInvalid, {"head_dim_v is -8", "0 for head_dim"}},
    {[](Fixture &f) { f.problem.head_dim = 577; }, kUnsupported, {"head_dim is 577", "576"}},
    {[](Fixture &f) { f.problem.head_dim_v = 600; }, kUnsupported, {"head_dim_v is 600", "576"}},
    {[](Fixture &f) { f.problem.max_batch = -1; }, kInvalid, {"max_batch is -1", "negative"}},
    {[](Fixture &f) { f.problem.max_seqlen_q = -2; }, kInvalid, {"max_seqlen_q is -2", "negative"}},
    {[](Fixture &f) { f.problem.max_seqlen_kv = -3; }, kInvalid, {"max_seqlen_kv is -3", "negative"}},
    {[](Fixture &f) { f.problem.page_size = 16; },
     kInvalid,
     {"page_size is 16", "unless layout_kv is paged"}},
    {[](Fixture &f) {
       f.make_paged();
       f.problem.page_size = 0;
     },
     kInvalid,
     {"page_size is 0", "at least 1"}},
    {[](Fixture &f) {
       f.make_paged_csr();
       f.problem.page_size = -16;
     },
     kInvalid,
     {"page_size is -16", "at least 1"}},
    {[](Fixture &f) {
       f.make_paged();
       f.problem.features = 0;
     },
     kInvalid,
     {"features is 0x0", "FLASHATTN_FEATURE_SEQUSED_KV"}},
    {[](Fixture &f) { f.problem.max_total_q = 6; },
     kInvalid,
     {"max_total_q is 6", "unless layout_q is ragged"}},
    {[](Fixture &f) { f.problem.max_total_kv = 6; },
     kInvalid,
     {"max_total_kv is 6", "unless layout_kv is ragged"}},
    {[](Fixture &f) { f.problem.max_pages = 6; }, kInvalid, {"max_pages is 6", "unless layout_kv is paged"}},
    {[](Fixture &f) {
       f.make_ragged_q();
       f.problem.max_total_q = -6;
     },
     kInvalid,
     {"max_total_q is -6", "negative"}},
    {[](Fixture &f) {
       f.make_ragged_kv();
       f.problem.max_total_kv = -7;
     },
     kInvalid,
     {"max_total_kv is -7", "negative"}},
    {[](Fixture &f) {
       f.make_paged();
       f.problem.max_pages = INT64_MIN;
     },
     kInvalid,
     {"max_pages is -9223372036854775808", "negative"}},
    {[](Fixture &f) {
       f.problem.max_batch = INT32_MAX;
       f.problem.max_seqlen_q = INT32_MAX;
     },
     kInvalid,
     {"max_batch * num_heads_q * max_seqlen_q is 2147483647 * 4 * 2147483647", "2^52"}},
    {[](Fixture &f) {
       f.problem.max_batch = INT32_MAX;
       f.problem.max_seqlen_kv = INT32_MAX;
     },
     kInvalid,
     {"max_batch * num_heads_kv * max_seqlen_kv is 2147483647 * 2 * 2147483647", "2^52"}},
    {[](Fixture &f) {
       f.make_ragged_kv();
       f.problem.max_total_kv = INT64_MAX;
     },
     kInvalid,
     {"max_total_kv * num_heads_kv * head_dim is 9223372036854775807 * 2 * 8", "2^52"}},
    {[](Fixture &f) {
       f.make_paged();
       f.problem.max_pages = INT64_MAX / 2;
     },
     kInvalid,
     {"max_pages * page_size * num_heads_kv * head_dim is 4611686018427387903 * 1 * 2 * 8", "2^52"}},
    {[](Fixture &f) { f.problem.features = UINT64_C(1) << 40; },
     kUnsupported,
     {"features is 0x10000000000", "0x3f"}},
    {[](Fixture &f) { f.problem.flags = 8; }, kUnsupported, {"flags is 0x8", "0x7"}},
    {[](Fixture &f) { f.problem.flags = FLASHATTN_FLAG_CU_SEQLENS_INT64; },
     kInvalid,
     {"flags is 0x4", "CU_SEQLENS_INT64", "ragged"}},
    {[](Fixture &f) { f.problem.softmax_scale = NAN; }, kInvalid, {"softmax_scale is nan", "finite"}},
    {[](Fixture &f) { f.problem.softmax_scale = -INFINITY; }, kInvalid, {"softmax_scale is -inf", "finite"}},
    {[](Fixture &f) { f.problem.softcap = -1.5F; }, kInvalid, {"softcap is -1.5", "above 0"}},
    {[](Fixture &f) { f.problem.softcap = INFINITY; }, kInvalid, {"softcap is inf", "finite"}},
    {[](Fixture &f) { f.problem.causal = 2; }, kInvalid, {"causal is 2", "0 or 1"}},
    {[](Fixture &f) { f.problem.window_left = 128; },
     kInvalid,
     {"window_left is 128", "unless features has FLASHATTN_FEATURE_WINDOW"}},
    {[](Fixture &f) { f.problem.window_right = -1; },
     kInvalid,
     {"window_right is -1", "unless features has FLASHATTN_FEATURE_WINDOW"}},
    {[](Fixture &f) {
       f.problem.features = FLASHATTN_FEATURE_WINDOW;
       f.problem.window_left = -2;
     },
     kInvalid,
     {"window_left is -2", "-1 for unbounded"}},
    {[](Fixture &f) {
       f.problem.features = FLASHATTN_FEATURE_WINDOW;
       f.problem.window_right = INT32_MIN;
     },
     kInvalid,
     {"window_right is -2147483648", "-1 for unbounded"}},
    {[](Fixture &f) { f.problem.num_splits = 257; }, kInvalid, {"num_splits is 257", "0..256"}},
    {[](Fixture &f) { f.problem.num_splits = -1; }, kInvalid, {"num_splits is -1", "0..256"}},
    {[](Fixture &f) {
       f.problem.num_splits = 2;
       f.problem.flags = FLASHATTN_FLAG_BATCH_INVARIANT;
     },
     kInvalid,
     {"num_splits is 2", "BATCH_INVARIANT"}},
    {[](Fixture &f) { f.problem.precision_f32 = 3; }, kInvalid, {"precision_f32 is 3", "_TF32X3 (2)"}},
    {[](Fixture &f) { f.problem.reserved0 = 1; }, kInvalid, {"reserved0 is 1", "0"}},
    {[](Fixture &f) { f.problem.reserved[7] = 9; }, kInvalid, {"reserved[7] is 9", "0"}},
    {[](Fixture &f) { std::strcpy(f.problem.kernel, "fwd_none"); },
     kUnsupported,
     {"kernel is \"fwd_none\"", "flashattn_kernel_info"}},
    {[](Fixture &f) { std::memset(f.problem.kernel, 'x', sizeof f.problem.kernel); },
     kInvalid,
     {"kernel is \"xxx", "NUL within its 64 bytes"}},
    {[](Fixture &f) { f.problem.struct_size = 0; },
     FLASHATTN_STATUS_STRUCT_SIZE,
     {"problem.struct_size is 0", "sizeof"}},
    {[](Fixture &f) { f.problem.struct_size = UINT32_MAX; },
     FLASHATTN_STATUS_STRUCT_SIZE,
     {"problem.struct_size is 4294967295", "sizeof"}},
};

TEST_CASE("a wrong field of a problem is named with its value and the rule, and nothing is written") {
  const CpuHandle handle;
  int number = 0;
  for (const Row &row : kRows) {
    CAPTURE(number++);
    CAPTURE(row.texts[0]);
    Fixture fixture;
    row.break_it(fixture);
    flashattn_plan_t *plan = reinterpret_cast<flashattn_plan_t *>(&fixture);
    CHECK(flashattn_plan_create(handle, &fixture.problem, &plan) == row.status);
    CHECK(plan == nullptr);
    const std::string error = flashattn_last_error();
    CAPTURE(error);
    CHECK(error_names(row.texts));
    CHECK(flashattn_attention(handle, &fixture.problem, &fixture.call, nullptr) == row.status);
    CHECK(flashattn_last_error() == error);
    CHECK(fixture.o.untouched());
    CHECK(fixture.lse.untouched());
  }
}

TEST_CASE("flashattn_call_contiguous refuses what planning refuses and leaves the call alone") {
  const CpuHandle handle;
  for (const Row &row : kRows) {
    // These are a backend's answers, and this function has none.
    if (row.texts[0].find("577") != std::string::npos || row.texts[0].find("600") != std::string::npos ||
        row.texts[0].find("fwd_none") != std::string::npos) {
      continue;
    }
    CAPTURE(row.texts[0]);
    Fixture fixture;
    row.break_it(fixture);
    const flashattn_call_t before = fixture.call;
    CHECK(flashattn_call_contiguous(&fixture.problem, &fixture.call) == row.status);
    CHECK(error_names(row.texts));
    CHECK(std::memcmp(&before, &fixture.call, sizeof before) == 0);
  }
}

}  // namespace
}  // namespace flashattn::testing
