// SPDX-License-Identifier: Apache-2.0
// A case laid out in guarded device buffers, with the problem and the call that describe it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/attention_case.h"
#include "tests/support/contents.h"
#include "tests/support/device.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/oracle.h"

namespace flashattn::test {

class PreparedCall {
 public:
  PreparedCall(const Case &c, const Contents &contents, Device &device);

  flashattn_problem_t problem;  // kernel "" until the caller names one
  flashattn_call_t call;

  // Poisons O and LSE afresh, on the device.
  void reset_outputs();

  // Fetches O and LSE, and checks that nothing else in their buffers changed and no input did. "" when all is
  // well.
  std::string fetch();

  // After fetch(): whether O and LSE are as they were before the call, bit for bit.
  bool outputs_untouched() const;

  // After fetch(): the first breach of the accuracy rule, "" when there is none. *share becomes the largest
  // error of O as a share of its bound.
  std::string compare(const Expected &expected, double *share) const;

  // After fetch(): one result. LSE needs want_lse.
  float o_at(int64_t b, int64_t h, int64_t i, int64_t d) const;
  float lse_at(int64_t b, int64_t h, int64_t i) const;
  // Bytes of O's row, dim_v * dtype_size.
  const uint8_t *o_row(int64_t b, int64_t h, int64_t i) const;

  // All of O and LSE as fetched, for bitwise comparison of two runs of one PreparedCall.
  std::vector<uint8_t> snapshot() const;

  // The host image of an input buffer that holds int32 values, to spoil it; push() sends it again.
  int32_t *seqused_kv() { return host_int32(seqused_kv_); }
  int32_t *seqused_q() { return host_int32(seqused_q_); }
  int32_t *cu_seqlens_q() { return host_int32(cu_q_); }
  int32_t *cu_seqlens_kv() { return host_int32(cu_kv_); }
  int32_t *page_table() { return host_int32(pages_); }
  int32_t *page_indptr() { return host_int32(indptr_); }
  void push();

 private:
  using Buffer = std::unique_ptr<GuardedBuffer>;

  static int32_t *host_int32(const Buffer &buffer) {
    return buffer ? reinterpret_cast<int32_t *>(buffer->image()) : nullptr;
  }
  Buffer make_int32(const std::vector<int32_t> &values);
  Buffer make_cu_seqlens(const std::vector<int32_t> &lengths, int32_t spare, std::vector<int64_t> *starts);
  Buffer make_per_head(const std::vector<float> &values, PerHead kind, flashattn_per_head_t *out);
  void make_bias(const Contents &contents, int64_t rows_q, int64_t rows_kv);
  void make_pages(Rng *rng);

  // Where row (b, s, h) of Q or O / K or V begins, in elements of that tensor.
  int64_t offset_q(const flashattn_tensor_t &t, int64_t b, int64_t s, int64_t h) const;
  int64_t offset_kv(const flashattn_tensor_t &t, int64_t b, int64_t s, int64_t h) const;

  Case case_;
  Device &device_;
  Buffer q_, k_, v_, o_, lse_, bias_, slopes_, sinks_;
  Buffer cu_q_, cu_kv_, seqused_q_, seqused_kv_, diagonals_, pages_, indptr_;
  std::vector<int64_t> starts_q_, starts_kv_;   // ragged
  std::vector<std::vector<int32_t>> pages_of_;  // paged: the pages of each sequence, in order
  int64_t num_pages_ = 0;
  std::vector<uint8_t> o_written_, lse_written_;  // one byte per element: belongs to a result
};

}  // namespace flashattn::test
