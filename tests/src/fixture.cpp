// SPDX-License-Identifier: Apache-2.0
#include "tests/src/fixture.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace flashattn::testing {
namespace {

constexpr uint32_t kPoison = 0x7fc0dead;  // a quiet NaN no arithmetic makes

uint32_t bits(float value) {
  uint32_t word = 0;
  std::memcpy(&word, &value, sizeof word);
  return word;
}

float poison_value() {
  float value = 0;
  std::memcpy(&value, &kPoison, sizeof value);
  return value;
}

void fill_random(GuardedFloats *values, std::mt19937 *random) {
  std::normal_distribution<float> normal(0.25F, 1.0F);
  std::generate(values->data(), values->data() + values->size(), [&] { return normal(*random); });
}

// [batch, seqlen, heads, dim]
void set_dense(flashattn_tensor_t *tensor, float *data, int64_t seqlen, int64_t heads, int64_t dim) {
  *tensor = {data, seqlen * heads * dim, heads * dim, dim};
}

constexpr int kBatch = 2;
constexpr int kQueries = 3;
constexpr int kKeys = 5;
constexpr int kHeads = 4;
constexpr int kHeadsKv = 2;
constexpr int kDim = 8;
constexpr int kDimV = 4;
constexpr int kParts = 3;

}  // namespace

GuardedFloats::GuardedFloats(size_t count) : values_(count + 2 * kGuard) {
  poison();
}

void GuardedFloats::poison() {
  std::fill(values_.begin(), values_.end(), poison_value());
}

bool GuardedFloats::untouched() const {
  return std::all_of(values_.begin(), values_.end(), [](float value) { return bits(value) == kPoison; });
}

bool GuardedFloats::all_written() const {
  const auto is_poison = [](float value) { return bits(value) == kPoison; };
  const auto begin = values_.begin() + kGuard;
  const auto end = values_.end() - kGuard;
  return std::all_of(values_.begin(), begin, is_poison) && std::all_of(end, values_.end(), is_poison) &&
         std::none_of(begin, end, is_poison);
}

Fixture::Fixture()
    : q(kBatch * kQueries * kHeads * kDim),
      k(kBatch * kKeys * kHeadsKv * kDim),
      v(kBatch * kKeys * kHeadsKv * kDimV),
      o(kBatch * kQueries * kHeads * kDimV),
      lse(kBatch * kHeads * kQueries) {
  std::mt19937 random(std::random_device{}());
  fill_random(&q, &random);
  fill_random(&k, &random);
  fill_random(&v, &random);
  problem.dtype_q = FLASHATTN_DTYPE_F32;
  problem.dtype_kv = FLASHATTN_DTYPE_F32;
  problem.num_heads_q = kHeads;
  problem.num_heads_kv = kHeadsKv;
  problem.head_dim = kDim;
  problem.head_dim_v = kDimV;
  problem.max_batch = kBatch;
  problem.max_seqlen_q = kQueries;
  problem.max_seqlen_kv = kKeys;
  call.batch = kBatch;
  call.seqlen_q = kQueries;
  call.seqlen_kv = kKeys;
  set_dense(&call.q, q.data(), kQueries, kHeads, kDim);
  set_dense(&call.k, k.data(), kKeys, kHeadsKv, kDim);
  set_dense(&call.v, v.data(), kKeys, kHeadsKv, kDimV);
  set_dense(&call.o, o.data(), kQueries, kHeads, kDimV);
  call.lse = {lse.data(), kHeads * kQueries, 1, kQueries};
}

void Fixture::make_ragged_q() {
  problem.layout_q = FLASHATTN_LAYOUT_RAGGED;
  problem.max_total_q = kBatch * kQueries;
  call.total_q = kBatch * kQueries;
  call.seqlen_q = 0;
  call.cu_seqlens_q = cu_seqlens_q;
  call.lse = {lse.data(), 0, 1, kBatch * kQueries};
}

void Fixture::make_ragged_kv() {
  problem.layout_kv = FLASHATTN_LAYOUT_RAGGED;
  problem.max_total_kv = kBatch * kKeys;
  call.total_kv = kBatch * kKeys;
  call.seqlen_kv = 0;
  call.cu_seqlens_kv = cu_seqlens_kv;
}

void Fixture::make_paged() {
  problem.layout_kv = FLASHATTN_LAYOUT_PAGED;
  problem.features |= FLASHATTN_FEATURE_SEQUSED_KV;
  problem.page_size = 1;
  problem.max_pages = kBatch * kKeys;
  call.num_pages = kBatch * kKeys;
  call.seqlen_kv = 0;
  call.seqused_kv = seqused_kv;
  call.page_table = pages;
  call.page_table_stride = kKeys;
  call.page_table_width = kKeys;
  call.k.stride_batch = call.k.stride_seq;
  call.v.stride_batch = call.v.stride_seq;
}

void Fixture::make_paged_csr() {
  make_paged();
  problem.layout_kv = FLASHATTN_LAYOUT_PAGED_CSR;
  call.page_table = nullptr;
  call.page_table_stride = 0;
  call.page_table_width = 0;
  call.page_indptr = page_indptr;
  call.page_indices = pages;
}

CombineFixture::CombineFixture()
    : o_partial(kParts * kBatch * kQueries * kHeads * kDimV),
      lse_partial(kParts * kBatch * kQueries * kHeads),
      o(kBatch * kQueries * kHeads * kDimV),
      lse(kBatch * kQueries * kHeads) {
  std::mt19937 random(std::random_device{}());
  fill_random(&o_partial, &random);
  fill_random(&lse_partial, &random);
  args.num_parts = kParts;
  args.batch = kBatch;
  args.seqlen_q = kQueries;
  args.num_heads = kHeads;
  args.head_dim_v = kDimV;
  args.dtype_partial = FLASHATTN_DTYPE_F32;
  args.dtype_o = FLASHATTN_DTYPE_F32;
  set_dense(&args.o_partial, o_partial.data(), kQueries, kHeads, kDimV);
  args.o_partial_stride_part = kBatch * kQueries * kHeads * kDimV;
  args.lse_partial = {lse_partial.data(), kHeads * kQueries, 1, kQueries};
  args.lse_partial_stride_part = kBatch * kHeads * kQueries;
  set_dense(&args.o, o.data(), kQueries, kHeads, kDimV);
  args.lse = {lse.data(), kHeads * kQueries, 1, kQueries};
}

CpuHandle::CpuHandle(int32_t num_threads) {
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CPU;
  options.num_threads = num_threads;
  REQUIRE(flashattn_create(&options, &handle_) == FLASHATTN_STATUS_OK);
}

std::vector<float> cpu_result(Fixture &fixture) {
  const CpuHandle handle;
  fixture.o.poison();
  REQUIRE(flashattn_attention(handle, &fixture.problem, &fixture.call, nullptr) == FLASHATTN_STATUS_OK);
  REQUIRE(fixture.o.all_written());
  std::vector<float> result(fixture.o.data(), fixture.o.data() + fixture.o.size());
  fixture.o.poison();
  fixture.lse.poison();
  return result;
}

bool error_names(const std::vector<std::string> &texts) {
  const std::string error = flashattn_last_error();
  return std::all_of(texts.begin(), texts.end(),
                     [&](const std::string &text) { return error.find(text) != std::string::npos; });
}

}  // namespace flashattn::testing
