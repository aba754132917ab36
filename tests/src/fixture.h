// SPDX-License-Identifier: Apache-2.0
// A small valid problem with its call, and buffers that show who wrote where.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flashattn.h"

namespace flashattn::testing {

// Floats between guard words; poisoned with a NaN of known bits.
class GuardedFloats {
 public:
  explicit GuardedFloats(size_t count);
  float *data() { return values_.data() + kGuard; }
  const float *data() const { return values_.data() + kGuard; }
  size_t size() const { return values_.size() - 2 * kGuard; }
  void poison();
  // No word, guard words included, has changed since poison().
  bool untouched() const;
  // Guard words are whole and no element holds poison.
  bool all_written() const;

 private:
  static constexpr size_t kGuard = 16;
  std::vector<float> values_;
};

// f32 self-attention of 2 sequences, 4 query heads over 2 KV heads: 3 queries, 5 keys, dims 8 and 4.
struct Fixture {
  Fixture();
  Fixture(const Fixture &) = delete;
  Fixture &operator=(const Fixture &) = delete;

  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  flashattn_call_t call = FLASHATTN_CALL_INIT;
  GuardedFloats q;
  GuardedFloats k;
  GuardedFloats v;
  GuardedFloats o;
  GuardedFloats lse;

  // The same rows in other layouts; K and V pages have one slot each.
  void make_ragged_q();
  void make_ragged_kv();
  void make_paged();
  void make_paged_csr();
  int32_t cu_seqlens_q[3] = {0, 3, 6};
  int32_t cu_seqlens_kv[3] = {0, 5, 10};
  int32_t seqused_kv[2] = {5, 5};
  int32_t pages[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  int32_t page_indptr[3] = {0, 5, 10};
  float per_head[4] = {0.5F, 0.25F, 0.125F, 0.0625F};
  float bias[15] = {};  // [3, 5], the same for every sequence and head
};

// A merge of 3 parts of batch 2, 3 queries, 4 heads, dim 4.
struct CombineFixture {
  CombineFixture();
  CombineFixture(const CombineFixture &) = delete;
  CombineFixture &operator=(const CombineFixture &) = delete;

  flashattn_combine_args_t args = FLASHATTN_COMBINE_ARGS_INIT;
  GuardedFloats o_partial;
  GuardedFloats lse_partial;
  GuardedFloats o;
  GuardedFloats lse;
};

// A CPU handle of one thread, closed with the object.
class CpuHandle {
 public:
  explicit CpuHandle(int32_t num_threads = 1);
  ~CpuHandle() { flashattn_destroy(handle_); }
  CpuHandle(const CpuHandle &) = delete;
  CpuHandle &operator=(const CpuHandle &) = delete;
  operator flashattn_handle_t *() const { return handle_; }  // NOLINT: stands for the handle in calls

 private:
  flashattn_handle_t *handle_ = nullptr;
};

// What the CPU computes for the fixture's problem and inputs.
std::vector<float> cpu_result(Fixture &fixture);

// Whether the calling thread's last error has every one of the texts.
bool error_names(const std::vector<std::string> &texts);

}  // namespace flashattn::testing
