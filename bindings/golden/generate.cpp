// SPDX-License-Identifier: Apache-2.0
// Writes golden.txt, the calls that every binding must answer alike; README.md describes the format. Results come from
// the float64 oracle, error texts from the contract: the library itself is not asked.
//
//   golden_generate FILE           writes FILE
//   golden_generate --check FILE   fails unless FILE is what would be written
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bindings/golden/cases.h"
#include "tests/support/dtype.h"
#include "tests/support/oracle.h"

namespace flashattn::golden {
namespace {

using test::Case;
using test::Contents;
using test::Expected;
using test::PreparedCall;

constexpr uint64_t kSeed = 2026;

struct Extents {
  int64_t batch, seq, heads;
};

// Elements from the first to the last of a tensor whose rows have dim elements.
int64_t span(const flashattn_tensor_t &t, Extents e, int64_t dim) {
  if (e.batch == 0 || e.seq == 0 || e.heads == 0) return 0;
  return (e.batch - 1) * t.stride_batch + (e.seq - 1) * t.stride_seq + (e.heads - 1) * t.stride_head + dim;
}

class Writer {
 public:
  explicit Writer(std::ostream &out) : out_(out) {}

  template <typename T>
  void field(const char *of, const std::string &name, T value) {
    if (value != 0) out_ << of << ' ' << name << ' ' << value << '\n';
  }
  void real(const char *of, const char *name, float value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
    if (value != 0) out_ << of << ' ' << name << ' ' << text << '\n';
  }

  void buffer(const char *name, const char *dtype, int64_t count, int64_t element_size, const void *data) {
    if (data == nullptr) return;
    out_ << "buffer " << name << ' ' << dtype << ' ' << count << '\n';
    hex(data, count * element_size);
  }
  void fill(const char *name, int32_t dtype, int64_t count) {
    out_ << "fill " << name << ' ' << test::dtype_name(dtype) << ' ' << count << '\n';
  }
  void want(const char *name, const std::vector<float> &values, double tolerance) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", tolerance);
    out_ << "want " << name << ' ' << text << '\n';
    hex(values.data(), static_cast<int64_t>(values.size() * sizeof(float)));
  }

  void tensor(const char *name, const flashattn_tensor_t &t) {
    field("call", std::string(name) + ".stride_batch", t.stride_batch);
    field("call", std::string(name) + ".stride_seq", t.stride_seq);
    field("call", std::string(name) + ".stride_head", t.stride_head);
  }
  void per_head(const char *name, const flashattn_per_head_t &p) {
    field("call", std::string(name) + ".stride_batch", p.stride_batch);
    field("call", std::string(name) + ".stride_head", p.stride_head);
  }

 private:
  void hex(const void *data, int64_t size) {
    static constexpr char kDigits[] = "0123456789abcdef";
    const auto *bytes = static_cast<const uint8_t *>(data);
    for (int64_t i = 0; i < size; ++i) {
      out_ << kDigits[bytes[i] >> 4] << kDigits[bytes[i] & 15];
      if (i % 64 == 63 || i + 1 == size) out_ << '\n';
    }
  }

  std::ostream &out_;
};

void write_problem(Writer &out, const flashattn_problem_t &p, std::ostream &raw) {
  out.field("problem", "op", p.op);
  out.field("problem", "dtype_q", p.dtype_q);
  out.field("problem", "dtype_kv", p.dtype_kv);
  out.field("problem", "dtype_o", p.dtype_o);
  out.field("problem", "dtype_bias", p.dtype_bias);
  out.field("problem", "layout_q", p.layout_q);
  out.field("problem", "layout_kv", p.layout_kv);
  out.field("problem", "num_heads_q", p.num_heads_q);
  out.field("problem", "num_heads_kv", p.num_heads_kv);
  out.field("problem", "head_dim", p.head_dim);
  out.field("problem", "head_dim_v", p.head_dim_v);
  out.field("problem", "max_batch", p.max_batch);
  out.field("problem", "max_seqlen_q", p.max_seqlen_q);
  out.field("problem", "max_seqlen_kv", p.max_seqlen_kv);
  out.field("problem", "page_size", p.page_size);
  out.field("problem", "max_total_q", p.max_total_q);
  out.field("problem", "max_total_kv", p.max_total_kv);
  out.field("problem", "max_pages", p.max_pages);
  out.field("problem", "features", p.features);
  out.field("problem", "flags", p.flags);
  out.real("problem", "softmax_scale", p.softmax_scale);
  out.real("problem", "softcap", p.softcap);
  out.field("problem", "causal", p.causal);
  out.field("problem", "window_left", p.window_left);
  out.field("problem", "window_right", p.window_right);
  out.field("problem", "num_splits", p.num_splits);
  if (p.kernel[0] != '\0') raw << "problem kernel " << p.kernel << '\n';
}

void write_call(Writer &out, const flashattn_call_t &c) {
  out.field("call", "batch", c.batch);
  out.field("call", "seqlen_q", c.seqlen_q);
  out.field("call", "seqlen_kv", c.seqlen_kv);
  out.field("call", "total_q", c.total_q);
  out.field("call", "total_kv", c.total_kv);
  out.field("call", "num_pages", c.num_pages);
  out.field("call", "diag_offset", c.diag_offset);
  out.tensor("q", c.q);
  out.tensor("k", c.k);
  out.tensor("v", c.v);
  out.tensor("o", c.o);
  out.tensor("lse", c.lse);
  out.field("call", "page_table_stride", c.page_table_stride);
  out.field("call", "page_table_width", c.page_table_width);
  out.field("call", "bias.stride_batch", c.bias.stride_batch);
  out.field("call", "bias.stride_head", c.bias.stride_head);
  out.field("call", "bias.stride_q", c.bias.stride_q);
  out.field("call", "bias.stride_kv", c.bias.stride_kv);
  out.per_head("alibi_slopes", c.alibi_slopes);
  out.per_head("sinks", c.sinks);
}

// Sizes come from the case: a spoilt call may hold others.
struct Shape {
  int64_t batch, rows_q, rows_kv, pages;
  Extents q, kv;
};

Shape shape_of(const Case &c, const flashattn_call_t &call) {
  Shape s{};
  s.batch = c.batch();
  s.rows_q = c.max_n_q() + c.spare_q;
  s.rows_kv = c.max_n_k() + c.spare_kv;
  s.q = c.layout_q == FLASHATTN_LAYOUT_RAGGED ? Extents{1, call.total_q, c.heads_q}
                                              : Extents{s.batch, s.rows_q, c.heads_q};
  s.kv = c.layout_kv == FLASHATTN_LAYOUT_RAGGED ? Extents{1, call.total_kv, c.heads_kv}
         : c.paged()                            ? Extents{call.num_pages, c.page_size, c.heads_kv}
                                                : Extents{s.batch, s.rows_kv, c.heads_kv};
  return s;
}

void write_buffers(Writer &out, const Case &c, const flashattn_call_t &call, const Shape &s) {
  const auto rows = [&](const char *name, const flashattn_tensor_t &t, Extents e, int64_t dim,
                        int32_t dtype) {
    out.buffer(name, test::dtype_name(dtype), span(t, e, dim), test::dtype_size(dtype), t.data);
  };
  flashattn_tensor_t q = call.q;
  if (q.stride_seq < 0) q.stride_seq = 0;  // a spoilt stride: any buffer will do
  rows("q", q, s.q, c.dim, c.dtype_q);
  rows("k", call.k, s.kv, c.dim, c.dtype_kv);
  rows("v", call.v, s.kv, c.dim_v, c.dtype_kv);

  const auto int32s = [&](const char *name, const void *data, int64_t count) {
    out.buffer(name, "i32", count, 4, data);
  };
  const char *cu_dtype = c.cu_int64 ? "i64" : "i32";
  out.buffer("cu_seqlens_q", cu_dtype, s.batch + 1, c.cu_int64 ? 8 : 4, call.cu_seqlens_q);
  out.buffer("cu_seqlens_kv", cu_dtype, s.batch + 1, c.cu_int64 ? 8 : 4, call.cu_seqlens_kv);
  int32s("seqused_q", call.seqused_q, s.batch);
  int32s("seqused_kv", call.seqused_kv, s.batch);
  int32s("diag_offsets", call.diag_offsets, s.batch);
  int32s("page_table", call.page_table, (s.batch - 1) * call.page_table_stride + call.page_table_width);
  int32s("page_indptr", call.page_indptr, s.batch + 1);
  int32s("page_indices", call.page_indices, call.page_indptr != nullptr ? call.page_indptr[s.batch] : 0);

  const flashattn_bias_t &bias = call.bias;
  if (bias.data != nullptr) {
    const int64_t count = 1 + (s.batch - 1) * bias.stride_batch + (c.heads_q - 1) * bias.stride_head +
                          (s.rows_q - 1) * bias.stride_q + (s.rows_kv - 1) * bias.stride_kv;
    out.buffer("bias", c.bias.dtype == FLASHATTN_DTYPE_U8 ? "u8" : test::dtype_name(c.bias.dtype), count,
               test::dtype_size(c.bias.dtype), bias.data);
  }
  const auto per_head = [&](const char *name, const flashattn_per_head_t &p) {
    const int64_t count = 1 + (s.batch - 1) * p.stride_batch + (c.heads_q - 1) * p.stride_head;
    out.buffer(name, "f32", count, 4, p.data);
  };
  per_head("alibi_slopes", call.alibi_slopes);
  per_head("sinks", call.sinks);

  out.fill("o", c.dtype_o, span(call.o, s.q, c.dim_v));
  if (c.want_lse) out.fill("lse", FLASHATTN_DTYPE_F32, span(call.lse, s.q, 1));
}

void write_wanted(Writer &out, const Case &c, const flashattn_call_t &call, const Shape &s,
                  const Expected &expected) {
  const float untouched = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> o(span(call.o, s.q, c.dim_v), untouched);
  std::vector<float> lse(c.want_lse ? span(call.lse, s.q, 1) : 0, untouched);
  double o_largest = 0, lse_tolerance = 0;
  int64_t first = c.lead_rows;  // ragged: where the sequence begins
  for (int32_t b = 0; b < c.batch(); ++b) {
    const auto offset = [&](const flashattn_tensor_t &t, int64_t i, int64_t h) {
      const bool ragged = c.layout_q == FLASHATTN_LAYOUT_RAGGED;
      return (ragged ? (first + i) * t.stride_seq : b * t.stride_batch + i * t.stride_seq) +
             h * t.stride_head;
    };
    for (int32_t i = 0; i < c.n_q[b]; ++i) {
      for (int32_t h = 0; h < c.heads_q; ++h) {
        const int64_t row = expected.row(b, h, i);
        for (int32_t d = 0; d < c.dim_v; ++d) {
          const double value = expected.o[row * c.dim_v + d];
          o[offset(call.o, i, h) + d] = static_cast<float>(value);
          o_largest = std::max(o_largest, std::fabs(value));
        }
        if (!c.want_lse) continue;
        const double value = expected.lse[row];
        lse[offset(call.lse, i, h)] = static_cast<float>(value);
        if (!std::isfinite(value)) continue;
        lse_tolerance =
            std::max({lse_tolerance, 1e-5 * std::max(1.0, std::fabs(value)), 2 * expected.score_error[row]});
      }
    }
    first += c.n_q[b] + c.spare_q;
  }
  out.want("o", o, 2 * expected.reference_error + test::ulp(c.dtype_o, o_largest));
  if (c.want_lse) out.want("lse", lse, lse_tolerance);
}

void write_file(std::ostream &raw) {
  test::set_run_seed(kSeed);
  Writer out(raw);
  const auto device = test::make_host_device();
  raw << "flashattn golden 1\n";
  for (const Case &c : good_cases()) {
    const Contents contents = make_contents(c, test::rng_for(c.name));
    PreparedCall call(c, contents, *device);
    const Shape shape = shape_of(c, call.call);
    raw << "\ncase " << c.name << '\n';
    write_problem(out, call.problem, raw);
    write_call(out, call.call);
    write_buffers(out, c, call.call, shape);
    raw << "status 0\n";
    write_wanted(out, c, call.call, shape, oracle(c, contents));
    raw << "end\n";
  }
  for (const WrongCase &w : wrong_cases()) {
    const Contents contents = make_contents(w.good, test::rng_for(w.good.name));
    PreparedCall call(w.good, contents, *device);
    const Shape shape = shape_of(w.good, call.call);
    w.spoil(call);
    call.push();
    raw << "\ncase " << w.good.name << '\n';
    write_problem(out, call.problem, raw);
    write_call(out, call.call);
    write_buffers(out, w.good, call.call, shape);
    raw << "status " << w.status << "\nerror " << w.text << "\nend\n";
  }
}

int check(const std::string &path) {
  std::ostringstream fresh;
  write_file(fresh);
  std::ifstream file(path);
  std::istringstream wanted(fresh.str());
  std::string is, must, name;
  for (int line = 1;; ++line) {
    const bool more = static_cast<bool>(std::getline(wanted, must));
    const bool more_file = static_cast<bool>(std::getline(file, is));
    if (!more && !more_file) return 0;
    if (must.rfind("case ", 0) == 0) name = must;
    if (more != more_file || is != must) {
      std::cerr << path << ':' << line << ": " << name << ": is \"" << is << "\", must be \"" << must
                << "\"; golden_generate FILE writes it anew\n";
      return 1;
    }
  }
}

}  // namespace
}  // namespace flashattn::golden

int main(int argc, char **argv) {
  if (argc == 3 && std::strcmp(argv[1], "--check") == 0) return flashattn::golden::check(argv[2]);
  if (argc != 2) {
    std::cerr << "usage: golden_generate [--check] FILE\n";
    return 2;
  }
  std::ofstream file(argv[1]);
  flashattn::golden::write_file(file);
  return file.flush() ? 0 : 1;
}
