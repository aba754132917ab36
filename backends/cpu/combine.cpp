// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/combine.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "backends/cpu/convert.h"
#include "backends/cpu/forward.h"
#include "src/dtype.h"

namespace flashattn::cpu {
namespace {

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
constexpr int32_t kColumns = 256;  // merged at a time, on the stack
constexpr int64_t kRowsPerItem = 64;

struct Row {
  int64_t b;
  int64_t s;
  int64_t h;
};

int64_t offset_of(const flashattn_tensor_t &tensor, const Row &row) {
  return row.b * tensor.stride_batch + row.s * tensor.stride_seq + row.h * tensor.stride_head;
}

struct Job {
  const flashattn_combine_args_t &args;
  int64_t rows;
  std::atomic<int64_t> next{0};
};

// LSE = m + ln sum_p exp(LSE_p - m) with m the largest; NaN in any part comes through.
float merged_lse(const float *lse, int64_t stride, int32_t parts) {
  float m = kMinusInf;
  for (int32_t p = 0; p < parts; ++p) m = std::max(m, lse[p * stride]);
  float sum = 0.0F;
  for (int32_t p = 0; p < parts; ++p) {
    const float part = lse[p * stride];
    if (part != kMinusInf) sum += std::exp(part - m);
  }
  return m + std::log(sum);
}

void combine_row(const flashattn_combine_args_t &args, const Row &row) {
  const float *lse = static_cast<const float *>(args.lse_partial.data) + offset_of(args.lse_partial, row);
  const float total = merged_lse(lse, args.lse_partial_stride_part, args.num_parts);
  const int64_t in_size = dtype_size(args.dtype_partial);
  const int64_t out_size = dtype_size(args.dtype_o);
  const char *parts =
      static_cast<const char *>(args.o_partial.data) + offset_of(args.o_partial, row) * in_size;
  char *out = static_cast<char *>(args.o.data) + offset_of(args.o, row) * out_size;
  for (int32_t first = 0; first < args.head_dim_v; first += kColumns) {
    const int32_t n = std::min(kColumns, args.head_dim_v - first);
    float sum[kColumns] = {};
    float part[kColumns];
    for (int32_t p = 0; p < args.num_parts; ++p) {
      const float part_lse = lse[p * args.lse_partial_stride_part];
      if (part_lse == kMinusInf) continue;
      const float weight = std::exp(part_lse - total);
      load_row(args.dtype_partial, parts + (p * args.o_partial_stride_part + first) * in_size, n, part);
      for (int32_t c = 0; c < n; ++c) sum[c] += weight * part[c];
    }
    store_row(args.dtype_o, sum, n, out + first * out_size);
  }
  if (args.lse.data != nullptr) static_cast<float *>(args.lse.data)[offset_of(args.lse, row)] = total;
}

void work(void *context, int32_t /*worker*/) {
  Job &job = *static_cast<Job *>(context);
  while (true) {
    const int64_t begin = job.next.fetch_add(kRowsPerItem, std::memory_order_relaxed);
    if (begin >= job.rows) return;
    const int64_t end = std::min(begin + kRowsPerItem, job.rows);
    for (int64_t r = begin; r < end; ++r) {
      const int64_t heads = job.args.num_heads;
      const int64_t seqlen = job.args.seqlen_q;
      combine_row(job.args, {r / heads / seqlen, r / heads % seqlen, r % heads});
    }
  }
}

}  // namespace

void combine(const flashattn_combine_args_t &args, Workers *workers) {
  Job job{args, static_cast<int64_t>(args.batch) * args.seqlen_q * args.num_heads, {}};
  const double elements = static_cast<double>(job.rows) * args.head_dim_v * args.num_parts;
  workers->run(useful_workers(elements, (job.rows + kRowsPerItem - 1) / kRowsPerItem), work, &job);
}

}  // namespace flashattn::cpu
