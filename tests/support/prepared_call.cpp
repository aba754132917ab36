// SPDX-License-Identifier: Apache-2.0
#include "tests/support/prepared_call.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <numeric>

#include "tests/support/dtype.h"

namespace flashattn::test {
namespace {

struct Extents {
  int64_t batch, seq, heads;
};

// Strides of an arrangement and the elements its buffer needs.
struct Placement {
  flashattn_tensor_t tensor{};
  int64_t size = 0;
};

Placement place(const Arrangement &a, Extents extents, int64_t dim) {
  Placement placement;
  int64_t *strides[3] = {&placement.tensor.stride_batch, &placement.tensor.stride_seq,
                         &placement.tensor.stride_head};
  const int64_t counts[3] = {a.broadcast_batch ? 1 : extents.batch, a.broadcast_seq ? 1 : extents.seq,
                             a.broadcast_head ? 1 : extents.heads};
  const bool broadcast[3] = {a.broadcast_batch, a.broadcast_seq, a.broadcast_head};
  static constexpr int kInnermostFirst[4][3] = {{2, 1, 0}, {1, 2, 0}, {2, 0, 1}, {1, 0, 2}};
  const int *axes = kInnermostFirst[static_cast<int>(a.order)];
  const int64_t pads[3] = {a.pad_inner, a.pad_outer, 0};
  int64_t unit = dim + a.pad_dim;
  for (int n = 0; n < 3; ++n) {
    *strides[axes[n]] = broadcast[axes[n]] ? 0 : unit;
    unit *= counts[axes[n]] + pads[n];
  }
  // The buffer ends with the last row, so that reading on from there hits the guard.
  int64_t last = dim;
  for (int axis = 0; axis < 3; ++axis) last += (counts[axis] - 1) * *strides[axis];
  const bool empty = extents.batch == 0 || extents.seq == 0 || extents.heads == 0;
  placement.size = empty ? 0 : last;
  return placement;
}

std::string where(int64_t b, int64_t h, int64_t i) {
  return "sequence " + std::to_string(b) + " head " + std::to_string(h) + " query " + std::to_string(i);
}

}  // namespace

PreparedCall::Buffer PreparedCall::make_int32(const std::vector<int32_t> &values) {
  auto buffer = std::make_unique<GuardedBuffer>(device_, values.size() * sizeof(int32_t));
  if (!values.empty()) std::memcpy(buffer->image(), values.data(), values.size() * sizeof(int32_t));
  buffer->upload();
  return buffer;
}

PreparedCall::Buffer PreparedCall::make_cu_seqlens(const std::vector<int32_t> &lengths, int32_t spare,
                                                   std::vector<int64_t> *starts) {
  starts->assign(1, case_.lead_rows);
  for (const int32_t length : lengths) starts->push_back(starts->back() + length + spare);
  if (!case_.cu_int64) return make_int32(std::vector<int32_t>(starts->begin(), starts->end()));
  auto buffer = std::make_unique<GuardedBuffer>(device_, starts->size() * sizeof(int64_t));
  std::memcpy(buffer->image(), starts->data(), starts->size() * sizeof(int64_t));
  buffer->upload();
  return buffer;
}

PreparedCall::Buffer PreparedCall::make_per_head(const std::vector<float> &values, PerHead kind,
                                                 flashattn_per_head_t *out) {
  // [B,H] lies heads outermost, with a gap, so that the two strides cannot be mixed up.
  const int64_t batch = case_.batch();
  out->stride_head = kind == PerHead::kHead ? 1 : batch + 1;
  out->stride_batch = kind == PerHead::kHead ? 0 : 1;
  const int64_t size = batch == 0 ? 0
                                  : 1 + (case_.heads_q - 1) * out->stride_head +
                                        (kind == PerHead::kHead ? 0 : batch - 1) * out->stride_batch;
  auto buffer = std::make_unique<GuardedBuffer>(device_, size * sizeof(float));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < case_.heads_q; ++h) {
      const int64_t at = b * out->stride_batch + h * out->stride_head;
      std::memcpy(buffer->image() + at * sizeof(float), &values[b * case_.heads_q + h], sizeof(float));
    }
  }
  buffer->upload();
  out->data = static_cast<const float *>(buffer->device_data());
  return buffer;
}

void PreparedCall::make_bias(const Contents &contents, int64_t rows_q, int64_t rows_kv) {
  const BiasCase &bias = case_.bias;
  const int64_t element = dtype_size(bias.dtype);
  int64_t unit = 1;
  const auto take = [&unit](int64_t extent, bool broadcast, int64_t pad) {
    const int64_t stride = broadcast ? 0 : unit;
    if (!broadcast) unit *= extent + pad;
    return stride;
  };
  flashattn_bias_t &out = call.bias;
  if (bias.transposed) {
    out.stride_q = take(rows_q, bias.broadcast_q, bias.pad_kv);
    out.stride_head = take(case_.heads_q, bias.broadcast_head, 0);
    out.stride_batch = take(case_.batch(), bias.broadcast_batch, 0);
    out.stride_kv = take(rows_kv, bias.broadcast_kv, 0);
  } else {
    out.stride_kv = take(rows_kv, bias.broadcast_kv, bias.pad_kv);
    out.stride_q = take(rows_q, bias.broadcast_q, 0);
    out.stride_head = take(case_.heads_q, bias.broadcast_head, 0);
    out.stride_batch = take(case_.batch(), bias.broadcast_batch, 0);
  }
  bias_ = std::make_unique<GuardedBuffer>(device_, unit * element, bias.misalign * element);
  for (int32_t b = 0; b < case_.batch(); ++b) {
    for (int32_t h = 0; h < case_.heads_q; ++h) {
      for (int32_t i = 0; i < case_.n_q[b]; ++i) {
        for (int32_t j = 0; j < case_.n_k[b]; ++j) {
          const int64_t at =
              b * out.stride_batch + h * out.stride_head + i * out.stride_q + j * out.stride_kv;
          encode(bias.dtype, contents.bias.at(b, h, i, j), bias_->image() + at * element);
        }
      }
    }
  }
  bias_->upload();
  out.data = bias_->device_data();
}

// Hands out shuffled pages, some of the pool unused. Entries past a sequence's last page are -1: not to be
// read.
void PreparedCall::make_pages(Rng *rng) {
  const int32_t page = case_.page_size;
  int64_t total = 2;
  pages_of_.resize(case_.batch());
  for (int32_t b = 0; b < case_.batch(); ++b) {
    pages_of_[b].resize((static_cast<int64_t>(case_.n_k[b]) + case_.spare_kv + page - 1) / page);
    total += static_cast<int64_t>(pages_of_[b].size());
  }
  num_pages_ = total;
  std::vector<int32_t> pool(total);
  std::iota(pool.begin(), pool.end(), 0);
  for (size_t n = pool.size(); n > 1; --n) std::swap(pool[n - 1], pool[rng->next() % n]);
  size_t next = 0;
  size_t longest = 0;
  for (size_t b = 0; b < pages_of_.size(); ++b) {
    for (int32_t &entry : pages_of_[b]) entry = pool[next++];
    if (pages_of_[b].size() > pages_of_[longest].size()) longest = b;
  }
  if (case_.share_pages) {
    for (auto &pages : pages_of_) {
      std::copy(pages_of_[longest].begin(), pages_of_[longest].begin() + pages.size(), pages.begin());
    }
  }

  if (case_.layout_kv == FLASHATTN_LAYOUT_PAGED) {
    const int64_t width = pages_of_.empty() ? 1 : static_cast<int64_t>(pages_of_[longest].size()) + 1;
    call.page_table_width = static_cast<int32_t>(width);
    call.page_table_stride = width + 2;
    std::vector<int32_t> table(std::max<int64_t>(case_.batch(), 1) * call.page_table_stride - 2, -1);
    for (size_t b = 0; b < pages_of_.size(); ++b) {
      std::copy(pages_of_[b].begin(), pages_of_[b].end(), table.begin() + b * call.page_table_stride);
    }
    pages_ = make_int32(table);
    call.page_table = static_cast<const int32_t *>(pages_->device_data());
    return;
  }
  std::vector<int32_t> indices(3, -1);  // page_indptr need not begin at 0
  std::vector<int32_t> indptr(1, 3);
  for (const auto &pages : pages_of_) {
    indices.insert(indices.end(), pages.begin(), pages.end());
    indptr.push_back(static_cast<int32_t>(indices.size()));
  }
  pages_ = make_int32(indices);
  indptr_ = make_int32(indptr);
  call.page_indices = static_cast<const int32_t *>(pages_->device_data());
  call.page_indptr = static_cast<const int32_t *>(indptr_->device_data());
}

int64_t PreparedCall::offset_q(const flashattn_tensor_t &t, int64_t b, int64_t s, int64_t h) const {
  if (case_.layout_q == FLASHATTN_LAYOUT_RAGGED) return (starts_q_[b] + s) * t.stride_seq + h * t.stride_head;
  return b * t.stride_batch + s * t.stride_seq + h * t.stride_head;
}

int64_t PreparedCall::offset_kv(const flashattn_tensor_t &t, int64_t b, int64_t s, int64_t h) const {
  if (case_.layout_kv == FLASHATTN_LAYOUT_RAGGED)
    return (starts_kv_[b] + s) * t.stride_seq + h * t.stride_head;
  if (case_.paged()) {
    return pages_of_[b][s / case_.page_size] * t.stride_batch + s % case_.page_size * t.stride_seq +
           h * t.stride_head;
  }
  return b * t.stride_batch + s * t.stride_seq + h * t.stride_head;
}

PreparedCall::PreparedCall(const Case &c, const Contents &contents, Device &device)
    : problem(FLASHATTN_PROBLEM_INIT), call(FLASHATTN_CALL_INIT), case_(c), device_(device) {
  const bool ragged_q = c.layout_q == FLASHATTN_LAYOUT_RAGGED;
  const bool ragged_kv = c.layout_kv == FLASHATTN_LAYOUT_RAGGED;
  const int32_t rows_q = c.max_n_q() + c.spare_q;
  const int32_t rows_kv = c.max_n_k() + c.spare_kv;
  Rng rng = rng_for(c.name + " layout");

  problem.dtype_q = c.dtype_q;
  problem.dtype_kv = c.dtype_kv;
  problem.dtype_o = c.dtype_o;
  problem.dtype_bias = c.bias.dtype;
  problem.layout_q = c.layout_q;
  problem.layout_kv = c.layout_kv;
  problem.num_heads_q = c.heads_q;
  problem.num_heads_kv = c.heads_kv;
  problem.head_dim = c.dim;
  problem.head_dim_v = c.dim_v;
  problem.max_batch = c.batch() + c.slack;
  problem.max_seqlen_q = rows_q + c.slack;
  problem.max_seqlen_kv = rows_kv + c.slack;
  problem.softmax_scale = c.scale;
  problem.softcap = c.softcap;
  problem.causal = c.causal;
  problem.num_splits = c.num_splits;
  problem.flags = c.flags | (c.cu_int64 ? FLASHATTN_FLAG_CU_SEQLENS_INT64 : 0);
  if (c.window) {
    problem.features |= FLASHATTN_FEATURE_WINDOW;
    problem.window_left = c.left;
    problem.window_right = c.right;
  }

  call.batch = c.batch();
  call.seqlen_q = rows_q;
  call.seqlen_kv = rows_kv;
  call.diag_offset = c.diag_offset;

  // Where a bound is optional, every other class of calls leaves it out.
  if (ragged_q && c.slack % 2 == 1) call.seqlen_q = 0;
  if ((ragged_kv || c.paged()) && c.slack % 2 == 1) call.seqlen_kv = 0;

  Extents extents_q{c.batch(), rows_q, c.heads_q};
  if (ragged_q) {
    cu_q_ = make_cu_seqlens(c.n_q, c.spare_q, &starts_q_);
    call.cu_seqlens_q = cu_q_->device_data();
    call.total_q = starts_q_.back() + c.tail_rows;
    problem.max_total_q = call.total_q + c.slack;
    extents_q = {1, call.total_q, c.heads_q};
  }
  Extents extents_kv{c.batch(), rows_kv, c.heads_kv};
  if (ragged_kv) {
    cu_kv_ = make_cu_seqlens(c.n_k, c.spare_kv, &starts_kv_);
    call.cu_seqlens_kv = cu_kv_->device_data();
    call.total_kv = starts_kv_.back() + c.tail_rows;
    problem.max_total_kv = call.total_kv + c.slack;
    extents_kv = {1, call.total_kv, c.heads_kv};
  } else if (c.paged()) {
    make_pages(&rng);
    problem.page_size = c.page_size;
    problem.max_pages = num_pages_ + c.slack;
    call.num_pages = num_pages_;
    extents_kv = {num_pages_, c.page_size, c.heads_kv};
  }
  if (c.seqused_q) {
    problem.features |= FLASHATTN_FEATURE_SEQUSED_Q;
    seqused_q_ = make_int32(c.n_q);
    call.seqused_q = static_cast<const int32_t *>(seqused_q_->device_data());
  }
  if (c.seqused_kv || c.paged()) {
    problem.features |= FLASHATTN_FEATURE_SEQUSED_KV;
    seqused_kv_ = make_int32(c.n_k);
    call.seqused_kv = static_cast<const int32_t *>(seqused_kv_->device_data());
  }
  if (!c.diag_offsets.empty()) {
    problem.features |= FLASHATTN_FEATURE_DIAG_OFFSETS;
    diagonals_ = make_int32(c.diag_offsets);
    call.diag_offsets = static_cast<const int32_t *>(diagonals_->device_data());
  }

  const auto fill = [&](const Arrangement &a, const Rows &rows, int32_t dtype, bool is_q,
                        flashattn_tensor_t *tensor) {
    const Placement placement = place(a, is_q ? extents_q : extents_kv, rows.dim);
    *tensor = placement.tensor;
    const int64_t element = dtype_size(dtype);
    auto buffer = std::make_unique<GuardedBuffer>(device_, placement.size * element, a.misalign * element);
    tensor->data = buffer->device_data();
    for (int32_t b = 0; b < c.batch(); ++b) {
      const int32_t count = is_q ? c.n_q[b] : c.n_k[b];
      for (int32_t s = 0; s < count; ++s) {
        for (int32_t h = 0; h < (is_q ? c.heads_q : c.heads_kv); ++h) {
          const float *from = rows.row(b, s, h);
          uint8_t *to =
              buffer->image() + (is_q ? offset_q(*tensor, b, s, h) : offset_kv(*tensor, b, s, h)) * element;
          for (int64_t d = 0; d < rows.dim; ++d) encode(dtype, from[d], to + d * element);
        }
      }
    }
    buffer->upload();
    return buffer;
  };
  q_ = fill(c.q, contents.q, c.dtype_q, true, &call.q);
  k_ = fill(c.k, contents.k, c.dtype_kv, false, &call.k);
  v_ = fill(c.v, contents.v, c.dtype_kv, false, &call.v);

  const auto output = [&](const Arrangement &a, int64_t dim, int32_t dtype, flashattn_tensor_t *tensor,
                          std::vector<uint8_t> *written) {
    const Placement placement = place(a, extents_q, dim);
    *tensor = placement.tensor;
    const int64_t element = dtype_size(dtype);
    auto buffer = std::make_unique<GuardedBuffer>(device_, placement.size * element, a.misalign * element);
    tensor->data = buffer->device_data();
    written->assign(placement.size, 0);
    for (int32_t b = 0; b < c.batch(); ++b) {
      for (int32_t s = 0; s < c.n_q[b]; ++s) {
        for (int32_t h = 0; h < c.heads_q; ++h) {
          const auto begin = written->begin() + offset_q(*tensor, b, s, h);
          std::fill(begin, begin + dim, uint8_t{1});
        }
      }
    }
    return buffer;
  };
  o_ = output(c.o, c.dim_v, c.dtype_o, &call.o, &o_written_);
  if (c.want_lse) {
    Arrangement a;
    a.order = c.lse_order;
    a.pad_dim = c.lse_pad;
    lse_ = output(a, 1, FLASHATTN_DTYPE_F32, &call.lse, &lse_written_);
  }

  if (c.bias.dtype != 0) make_bias(contents, rows_q, rows_kv);
  if (c.alibi != PerHead::kOff) {
    problem.features |= FLASHATTN_FEATURE_ALIBI;
    slopes_ = make_per_head(contents.slopes, c.alibi, &call.alibi_slopes);
  }
  if (c.sinks != PerHead::kOff) {
    problem.features |= FLASHATTN_FEATURE_SINKS;
    sinks_ = make_per_head(contents.sinks, c.sinks, &call.sinks);
  }
  reset_outputs();
}

void PreparedCall::reset_outputs() {
  o_->upload();
  if (lse_) lse_->upload();
}

void PreparedCall::push() {
  for (const Buffer *buffer : {&cu_q_, &cu_kv_, &seqused_q_, &seqused_kv_, &diagonals_, &pages_, &indptr_}) {
    if (*buffer) (*buffer)->upload();
  }
}

std::string PreparedCall::fetch() {
  device_.synchronize();
  o_->download();
  std::string error = o_->unexpected_write(o_written_, dtype_size(case_.dtype_o));
  if (!error.empty()) return "O: " + error;
  if (lse_) {
    lse_->download();
    error = lse_->unexpected_write(lse_written_, sizeof(float));
    if (!error.empty()) return "LSE: " + error;
  }
  const std::pair<const char *, const Buffer *> inputs[] = {
      {"q", &q_},        {"k", &k_},          {"v", &v_},
      {"bias", &bias_},  {"alibi", &slopes_}, {"sinks", &sinks_},
      {"cu_q", &cu_q_},  {"cu_kv", &cu_kv_},  {"seqused", &seqused_kv_},
      {"pages", &pages_}};
  for (const auto &[name, buffer] : inputs) {
    if (!*buffer) continue;
    (*buffer)->download();
    error = (*buffer)->unexpected_write({}, 1);
    if (!error.empty()) return std::string("input ") + name + ": " + error;
  }
  return "";
}

bool PreparedCall::outputs_untouched() const {
  return o_->unexpected_write({}, 1).empty() && (!lse_ || lse_->unexpected_write({}, 1).empty());
}

const uint8_t *PreparedCall::o_row(int64_t b, int64_t h, int64_t i) const {
  return o_->result() + offset_q(call.o, b, i, h) * dtype_size(case_.dtype_o);
}

float PreparedCall::o_at(int64_t b, int64_t h, int64_t i, int64_t d) const {
  return decode(case_.dtype_o, o_row(b, h, i) + d * dtype_size(case_.dtype_o));
}

float PreparedCall::lse_at(int64_t b, int64_t h, int64_t i) const {
  return decode(FLASHATTN_DTYPE_F32, lse_->result() + offset_q(call.lse, b, i, h) * sizeof(float));
}

std::vector<uint8_t> PreparedCall::snapshot() const {
  std::vector<uint8_t> bytes(o_->result(), o_->result() + o_->size());
  if (lse_) bytes.insert(bytes.end(), lse_->result(), lse_->result() + lse_->size());
  return bytes;
}

std::string PreparedCall::compare(const Expected &expected, double *share) const {
  *share = 0;
  const auto text = [](double value) {
    char buffer[32];
    std::snprintf(buffer, sizeof(buffer), "%.9g", value);
    return std::string(buffer);
  };
  for (int32_t b = 0; b < case_.batch(); ++b) {
    for (int32_t h = 0; h < case_.heads_q; ++h) {
      for (int32_t i = 0; i < case_.n_q[b]; ++i) {
        const int64_t row = expected.row(b, h, i);
        if (expected.kind[row] == kUnchecked) {
          // Unverified rows must at least have been written.
          if (std::isnan(o_at(b, h, i, 0))) return "O was not written: " + where(b, h, i);
          continue;
        }
        for (int32_t d = 0; d < case_.dim_v; ++d) {
          const double want = expected.o[row * case_.dim_v + d];
          const double got = o_at(b, h, i, d);
          const bool same_special = std::isnan(want) ? std::isnan(got) : std::isinf(want) && got == want;
          if (same_special) continue;
          if (expected.kind[row] != kManyKeys && std::isfinite(want)) {
            if (got == round_to(case_.dtype_o, static_cast<float>(want))) continue;
            return "O: " + where(b, h, i) + " dim " + std::to_string(d) + ": is " + text(got) +
                   ", must be exactly " + text(want) +
                   (expected.kind[row] == kNoKey ? " (no key)" : " (one key)");
          }
          const double bound = 2 * expected.reference_error + ulp(case_.dtype_o, std::fabs(want));
          if (std::isfinite(want) && std::isfinite(got))
            *share = std::max(*share, std::fabs(got - want) / bound);
          if (std::isfinite(want) && std::fabs(got - want) <= bound) continue;
          return "O: " + where(b, h, i) + " dim " + std::to_string(d) + ": is " + text(got) + ", oracle " +
                 text(want) + ", bound " + text(bound);
        }
        if (!lse_) continue;
        const double want = expected.lse[row];
        const double got = lse_at(b, h, i);
        if (std::isnan(want) ? !std::isfinite(got) : got == want) continue;
        const double bound = std::max(1e-5 * std::max(1.0, std::fabs(want)), 2 * expected.score_error[row]);
        if (std::isfinite(want) && std::fabs(got - want) <= bound) continue;
        return "LSE: " + where(b, h, i) + ": is " + text(got) + ", oracle " + text(want);
      }
    }
  }
  return "";
}

}  // namespace flashattn::test
