// SPDX-License-Identifier: Apache-2.0
// The golden cases through the C++ binding.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <flashattn.hpp>
#include <string>
#include <vector>

#include "golden_file.h"

namespace {

using flashattn::Call;
using flashattn::Problem;
using flashattn::Shape;
using flashattn::Span;
using flashattn::Strides;
using flashattn::Tensor;
using golden::Buffer;
using golden::Case;

// As tests/support/dtype.h has them, but in terms of this file's formats.
float widen(const std::string &type, const uint8_t *bytes) {
  uint32_t bits = 0;
  if (type == "f32") {
    std::memcpy(&bits, bytes, 4);
  } else if (type == "bf16") {
    bits = static_cast<uint32_t>(bytes[0] | bytes[1] << 8) << 16;
  } else {
    const uint32_t half = bytes[0] | static_cast<uint32_t>(bytes[1]) << 8;
    const int32_t exponent = static_cast<int32_t>(half >> 10 & 31);
    const float magnitude = exponent == 0
                                ? std::ldexp(static_cast<float>(half & 1023), -24)
                                : std::ldexp(static_cast<float>((half & 1023) | 1024), exponent - 25);
    return half >> 15 != 0 ? -magnitude : magnitude;
  }
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// The case as a program would write it, with typed tensors.
class Built {
 public:
  explicit Built(Case &c) : c_(c) {
    const int64_t heads_q = c.problem_int("num_heads_q");
    const int64_t dim = c.problem_int("head_dim");
    const int64_t dim_v = c.problem_int("head_dim_v");
    const bool ragged_q = c.buffers.count("cu_seqlens_q") != 0;
    const int64_t rows_q = ragged_q ? c.call_int("total_q") : c.call_int("seqlen_q");
    const Shape q{ragged_q ? 1 : c.call_int("batch"), rows_q, heads_q, dim};
    Shape k{c.call_int("batch"), c.call_int("seqlen_kv"), c.problem_int("num_heads_kv"), dim};
    if (c.buffers.count("cu_seqlens_kv") != 0) k = {1, c.call_int("total_kv"), k.heads, dim};
    if (c.call_int("num_pages") != 0) k = {c.call_int("num_pages"), c.problem_int("page_size"), k.heads, dim};
    tensor("q", q, [this](auto t) { call.q(t); });
    tensor("k", k, [this](auto t) { call.k(t); });
    k.dim = dim_v;
    tensor("v", k, [this](auto t) { call.v(t); });
    tensor("o", {q.batch, q.seqlen, heads_q, dim_v}, [this](auto t) { call.o(t); });
    if (c.buffers.count("lse") != 0) {
      call.lse({as<float>("lse"), {q.batch, q.seqlen, heads_q, 1}, strides("lse")});
    }
    const auto starts = [&](const char *name, auto set) {
      if (c.buffers.count(name) == 0) return;
      if (c.buffers.at(name).type == "i64") {
        set(as<const int64_t>(name));
      } else {
        set(as<const int32_t>(name));
      }
    };
    starts("cu_seqlens_q", [this](auto s) { call.cu_seqlens_q(s); });
    starts("cu_seqlens_kv", [this](auto s) { call.cu_seqlens_kv(s); });
    const auto has = [&](const char *name) { return c.buffers.count(name) != 0; };
    if (has("seqused_q")) call.seqused_q(as<const int32_t>("seqused_q"));
    if (has("seqused_kv")) call.seqused_kv(as<const int32_t>("seqused_kv"));
    if (has("diag_offsets")) call.diag_offsets(as<const int32_t>("diag_offsets"));
    if (has("page_table")) {
      call.page_table(as<const int32_t>("page_table"), static_cast<int32_t>(c.call_int("page_table_width")),
                      c.call_int("page_table_stride"));
    }
    if (has("page_indptr"))
      call.page_csr(as<const int32_t>("page_indptr"), as<const int32_t>("page_indices"));
    if (has("alibi_slopes")) {
      call.alibi_slopes(as<const float>("alibi_slopes"), c.call_int("alibi_slopes.stride_batch"),
                        c.call_int("alibi_slopes.stride_head"));
    }
    if (has("sinks")) {
      call.sinks(as<const float>("sinks"), c.call_int("sinks.stride_batch"), c.call_int("sinks.stride_head"));
    }
    if (has("bias")) {
      const flashattn::BiasStrides strides{c.call_int("bias.stride_batch"), c.call_int("bias.stride_head"),
                                           c.call_int("bias.stride_q"), c.call_int("bias.stride_kv")};
      const std::string &type = c.buffers.at("bias").type;
      if (type == "u8") call.bias(as<const uint8_t>("bias"), strides);
      if (type == "f32") call.bias(as<const float>("bias"), strides);
      if (type == "f16") call.bias(as<const flashattn::Float16>("bias"), strides);
    }
    call.diag_offset(static_cast<int32_t>(c.call_int("diag_offset")));
    call.max_seqlens(static_cast<int32_t>(c.call_int("seqlen_q")),
                     static_cast<int32_t>(c.call_int("seqlen_kv")));
  }

  Problem problem() const {
    Problem p(call);
    const auto number = [this](const char *field) { return static_cast<int32_t>(c_.problem_int(field)); };
    const auto real = [this](const char *field) {
      return c_.problem.count(field) != 0 ? std::stof(c_.problem.at(field)) : 0.0F;
    };
    p.causal(number("causal") != 0).softcap(real("softcap")).softmax_scale(real("softmax_scale"));
    if ((c_.problem_int("features") & static_cast<int64_t>(FLASHATTN_FEATURE_WINDOW)) != 0) {
      p.window(number("window_left"), number("window_right"));
    }
    p.max_sizes(number("max_batch"), number("max_seqlen_q"), number("max_seqlen_kv"));
    p.num_splits(number("num_splits"));
    p.batch_invariant((number("flags") & FLASHATTN_FLAG_BATCH_INVARIANT) != 0);
    if (c_.problem.count("kernel") != 0) p.kernel(c_.problem.at("kernel"));
    return p;
  }

  Call call;

 private:
  template <class T>
  Span<T> as(const char *name) {
    Buffer &buffer = c_.buffers.at(name);
    return {buffer.as<T>(), static_cast<size_t>(buffer.count)};
  }
  Strides strides(const std::string &name) const {
    return {c_.call_int(name + ".stride_batch"), c_.call_int(name + ".stride_seq"),
            c_.call_int(name + ".stride_head")};
  }
  template <class Set>
  void tensor(const char *name, Shape shape, Set set) {
    if (c_.buffers.count(name) == 0) return;
    const std::string &type = c_.buffers.at(name).type;
    if (type == "f32") set(Tensor(as<float>(name), shape, strides(name)));
    if (type == "f16") set(Tensor(as<flashattn::Float16>(name), shape, strides(name)));
    if (type == "bf16") set(Tensor(as<flashattn::BFloat16>(name), shape, strides(name)));
  }

  Case &c_;
};

struct IntField {
  const char *name;
  int32_t flashattn_problem_t::*field;
};
constexpr IntField kProblemFields[] = {
    {"op", &flashattn_problem_t::op},
    {"dtype_q", &flashattn_problem_t::dtype_q},
    {"dtype_kv", &flashattn_problem_t::dtype_kv},
    {"dtype_o", &flashattn_problem_t::dtype_o},
    {"dtype_bias", &flashattn_problem_t::dtype_bias},
    {"layout_q", &flashattn_problem_t::layout_q},
    {"layout_kv", &flashattn_problem_t::layout_kv},
    {"num_heads_q", &flashattn_problem_t::num_heads_q},
    {"num_heads_kv", &flashattn_problem_t::num_heads_kv},
    {"head_dim", &flashattn_problem_t::head_dim},
    {"head_dim_v", &flashattn_problem_t::head_dim_v},
    {"max_batch", &flashattn_problem_t::max_batch},
    {"max_seqlen_q", &flashattn_problem_t::max_seqlen_q},
    {"max_seqlen_kv", &flashattn_problem_t::max_seqlen_kv},
    {"page_size", &flashattn_problem_t::page_size},
    {"causal", &flashattn_problem_t::causal},
    {"window_left", &flashattn_problem_t::window_left},
    {"window_right", &flashattn_problem_t::window_right},
    {"num_splits", &flashattn_problem_t::num_splits},
};

// The C structs as the file has them, field by field.
flashattn_problem_t raw_problem(const Case &c) {
  flashattn_problem_t p = FLASHATTN_PROBLEM_INIT;
  size_t known = 0;
  for (const IntField &f : kProblemFields) {
    p.*f.field = static_cast<int32_t>(c.problem_int(f.name));
    known += c.problem.count(f.name);
  }
  p.max_total_q = c.problem_int("max_total_q");
  p.max_total_kv = c.problem_int("max_total_kv");
  p.max_pages = c.problem_int("max_pages");
  p.features = c.problem_int("features");
  p.flags = c.problem_int("flags");
  for (const auto &[name, value] : c.problem) {
    if (name == "softmax_scale") p.softmax_scale = std::stof(value);
    if (name == "softcap") p.softcap = std::stof(value);
    if (name == "kernel") std::strncpy(p.kernel, value.c_str(), sizeof p.kernel - 1);
  }
  for (const char *name : {"max_total_q", "max_total_kv", "max_pages", "features", "flags", "softmax_scale",
                           "softcap", "kernel"}) {
    known += c.problem.count(name);
  }
  REQUIRE(known == c.problem.size());
  return p;
}

flashattn_call_t raw_call(Case &c) {
  flashattn_call_t call = FLASHATTN_CALL_INIT;
  const auto number = [&](const std::string &field) { return c.call_int(field); };
  const auto data = [&](const char *name) -> void * {
    return c.buffers.count(name) != 0 ? c.buffers.at(name).bytes.data() : nullptr;
  };
  const auto ints = [&](const char *name) { return static_cast<const int32_t *>(data(name)); };
  const auto tensor = [&](const std::string &name) {
    return flashattn_tensor_t{data(name.c_str()), number(name + ".stride_batch"),
                              number(name + ".stride_seq"), number(name + ".stride_head")};
  };
  const auto per_head = [&](const std::string &name) {
    return flashattn_per_head_t{static_cast<const float *>(data(name.c_str())),
                                number(name + ".stride_batch"), number(name + ".stride_head")};
  };
  call.batch = static_cast<int32_t>(number("batch"));
  call.seqlen_q = static_cast<int32_t>(number("seqlen_q"));
  call.seqlen_kv = static_cast<int32_t>(number("seqlen_kv"));
  call.total_q = number("total_q");
  call.total_kv = number("total_kv");
  call.num_pages = number("num_pages");
  call.diag_offset = static_cast<int32_t>(number("diag_offset"));
  call.q = tensor("q");
  call.k = tensor("k");
  call.v = tensor("v");
  call.o = tensor("o");
  call.lse = tensor("lse");
  call.cu_seqlens_q = data("cu_seqlens_q");
  call.cu_seqlens_kv = data("cu_seqlens_kv");
  call.seqused_q = ints("seqused_q");
  call.seqused_kv = ints("seqused_kv");
  call.diag_offsets = ints("diag_offsets");
  call.page_table = ints("page_table");
  call.page_table_stride = number("page_table_stride");
  call.page_table_width = static_cast<int32_t>(number("page_table_width"));
  call.page_indptr = ints("page_indptr");
  call.page_indices = ints("page_indices");
  call.bias = {data("bias"), number("bias.stride_batch"), number("bias.stride_head"), number("bias.stride_q"),
               number("bias.stride_kv")};
  call.alibi_slopes = per_head("alibi_slopes");
  call.sinks = per_head("sinks");
  return call;
}

// The first element of O or LSE that is not as wanted, "" when there is none.
std::string compare(const Case &c, const std::string &name) {
  const Buffer &buffer = c.buffers.at(name);
  const golden::Want &want = c.want.at(name);
  const size_t size = buffer.bytes.size() / static_cast<size_t>(buffer.count);
  for (size_t i = 0; i < want.values.size(); ++i) {
    const uint8_t *element = buffer.bytes.data() + i * size;
    const float must = want.values[i];
    const float is = widen(buffer.type, element);
    bool good = std::isinf(must) ? is == must : std::fabs(is - must) <= want.tolerance;
    if (std::isnan(must)) {
      good = true;
      for (size_t byte = 0; byte < size; ++byte)
        good = good && element[byte] == (byte % 2 == 0 ? 0xe5 : 0x7f);
    }
    if (!good)
      return name + "[" + std::to_string(i) + "] is " + std::to_string(is) + ", must be " +
             std::to_string(must);
  }
  return "";
}

bool untouched(const Case &c, const std::string &name) {
  if (c.buffers.count(name) == 0) return true;
  const std::vector<uint8_t> &bytes = c.buffers.at(name).bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != (i % 2 == 0 ? 0xe5 : 0x7f)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("golden: every case gives its results or its error") {
  const flashattn::Handle handle(flashattn::Options().backend(flashattn::Backend::kCpu));
  int results = 0, errors = 0;
  for (Case &c : golden::read(GOLDEN_FILE)) {
    CAPTURE(c.name);
    if (c.status != 0) {
      Call call;
      call.raw() = raw_call(c);
      Problem problem;
      problem.raw() = raw_problem(c);
      const auto outcome = handle.try_attention(problem, call);
      REQUIRE_FALSE(outcome);
      CHECK(outcome.error().status == c.status);
      CHECK_MESSAGE(outcome.error().text.find(c.error) != std::string::npos, outcome.error().text);
      CHECK(untouched(c, "o"));
      CHECK(untouched(c, "lse"));
      ++errors;
      continue;
    }
    Built built(c);
    const Problem problem = built.problem();
    // What the binding derives from the tensors is what the file says.
    const flashattn_call_t call = raw_call(c);
    const flashattn_problem_t p = raw_problem(c);
    CHECK(std::memcmp(&built.call.raw(), &call, sizeof call) == 0);
    CHECK(std::memcmp(&problem.raw(), &p, sizeof p) == 0);
    handle.attention(problem, built.call);
    CHECK(compare(c, "o") == "");
    if (c.want.count("lse") != 0) CHECK(compare(c, "lse") == "");
    ++results;
  }
  CHECK(results >= 30);
  CHECK(errors >= 14);
}
