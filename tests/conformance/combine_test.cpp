// SPDX-License-Identifier: Apache-2.0
// flashattn_combine, and partial results of forward merged by it.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/conformance/check.h"
#include "tests/support/dtype.h"

namespace flashattn::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Shape {
  int32_t parts = 2, batch = 2, seq = 3, heads = 4, dim = 20;
  int32_t dtype_partial = FLASHATTN_DTYPE_F32;
  int32_t dtype_o = FLASHATTN_DTYPE_F32;
  bool want_lse = true;
};

// Partial results and outputs in guarded buffers with gaps between rows.
class Merge {
 public:
  Merge(const Shape &shape, Device &device)
      : shape_(shape),
        o_partial_(device, partial_rows() * row() * dtype_size(shape.dtype_partial)),
        lse_partial_(device, partial_rows() * 2 * sizeof(float)),
        o_(device, result_rows() * row() * dtype_size(shape.dtype_o)),
        lse_(device, result_rows() * sizeof(float)) {}

  // Part p's row of O and its LSE; values are rounded to the partial dtype.
  void set(int32_t p, int64_t r, const std::vector<float> &o, float lse) {
    const int64_t at = p * result_rows() + r;
    for (int32_t d = 0; d < shape_.dim; ++d) {
      encode(shape_.dtype_partial, o[d],
             o_partial_.image() + (at * row() + d) * dtype_size(shape_.dtype_partial));
    }
    std::memcpy(lse_partial_.image() + at * 2 * sizeof(float), &lse, sizeof(lse));
  }

  flashattn_status_t run(flashattn_handle_t *handle, Device &device) {
    flashattn_combine_args_t args = FLASHATTN_COMBINE_ARGS_INIT;
    fill(&args);
    return attempt(handle, args, device);
  }

  // args may differ from what fill() gives.
  flashattn_status_t attempt(flashattn_handle_t *handle, const flashattn_combine_args_t &args,
                             Device &device) {
    o_partial_.upload();
    lse_partial_.upload();
    o_.upload();
    lse_.upload();
    const flashattn_status_t status = flashattn_combine(handle, &args, device.stream());
    device.synchronize();
    o_.download();
    lse_.download();
    o_partial_.download();
    return status;
  }

  void fill(flashattn_combine_args_t *args) {
    args->num_parts = shape_.parts;
    args->batch = shape_.batch;
    args->seqlen_q = shape_.seq;
    args->num_heads = shape_.heads;
    args->head_dim_v = shape_.dim;
    args->dtype_partial = shape_.dtype_partial;
    args->dtype_o = shape_.dtype_o;
    const auto tensor = [this](GuardedBuffer &buffer, int64_t unit) {
      return flashattn_tensor_t{buffer.device_data(), shape_.seq * shape_.heads * unit, shape_.heads * unit,
                                unit};
    };
    args->o_partial = tensor(o_partial_, row());
    args->o_partial_stride_part = result_rows() * row();
    args->lse_partial = tensor(lse_partial_, 2);
    args->lse_partial_stride_part = result_rows() * 2;
    args->o = tensor(o_, row());
    if (shape_.want_lse) args->lse = tensor(lse_, 1);
  }

  float o(int64_t r, int32_t d) const {
    return decode(shape_.dtype_o, o_.result() + (r * row() + d) * dtype_size(shape_.dtype_o));
  }
  float lse(int64_t r) const { return decode(FLASHATTN_DTYPE_F32, lse_.result() + r * sizeof(float)); }

  // Gaps, guards and inputs as they were; with nothing_written, outputs too.
  std::string check(bool nothing_written) const {
    std::vector<uint8_t> written;
    if (!nothing_written) {
      for (int64_t n = 0; n < result_rows() * row(); ++n) written.push_back(n % row() < shape_.dim ? 1 : 0);
    }
    std::string error = o_.unexpected_write(written, dtype_size(shape_.dtype_o));
    if (error.empty()) {
      std::vector<uint8_t> all(result_rows(), 1);
      error = lse_.unexpected_write(nothing_written || !shape_.want_lse ? std::vector<uint8_t>() : all,
                                    sizeof(float));
    }
    return error.empty() ? o_partial_.unexpected_write({}, 1) : error;
  }

  int64_t result_rows() const { return static_cast<int64_t>(shape_.batch) * shape_.seq * shape_.heads; }

 private:
  int64_t row() const { return shape_.dim + 3; }
  int64_t partial_rows() const { return shape_.parts * result_rows(); }

  Shape shape_;
  GuardedBuffer o_partial_, lse_partial_, o_, lse_;
};

// The backends under test, once each.
std::vector<Kernel> backends() {
  std::vector<Kernel> found;
  for (const Kernel &kernel : Session::instance().kernels()) {
    if (found.empty() || found.back().backend != kernel.backend) found.push_back(kernel);
  }
  return found;
}

// Draws parts, merges, and compares with ln(sum exp(LSE_p)) and sum exp(LSE_p - LSE) O_p in float64. empty is
// the share of parts without keys; their O is NaN and must not matter.
void check_merge(const Shape &shape, double empty, float spread) {
  for (const Kernel &kernel : backends()) {
    Device &device = Session::instance().device(kernel.backend);
    Merge merge(shape, device);
    Rng rng =
        rng_for("combine " + std::to_string(shape.parts * 100 + shape.dtype_partial * 10 + shape.dtype_o));
    std::vector<std::vector<float>> lses(merge.result_rows());
    std::vector<std::vector<std::vector<float>>> os(merge.result_rows());
    for (int64_t r = 0; r < merge.result_rows(); ++r) {
      for (int32_t p = 0; p < shape.parts; ++p) {
        const bool is_empty = rng.chance(empty);
        lses[r].push_back(is_empty ? -kInf : 0.7F + spread * rng.bell());
        os[r].emplace_back(shape.dim);
        for (float &value : os[r][p]) {
          const float drawn = round_to(shape.dtype_partial, 0.5F + rng.bell());
          value = is_empty ? std::nanf("") : drawn;
        }
        merge.set(p, r, os[r][p], lses[r][p]);
      }
    }
    INFO("parts ", shape.parts, " partial ", std::string(dtype_name(shape.dtype_partial)), " o ",
         std::string(dtype_name(shape.dtype_o)), " seed ", run_seed());
    const flashattn_status_t status = merge.run(Session::instance().handle(kernel.backend, 2), device);
    REQUIRE_MESSAGE(status == FLASHATTN_STATUS_OK, flashattn_last_error());
    CHECK(merge.check(false) == "");
    for (int64_t r = 0; r < merge.result_rows(); ++r) {
      double largest = -kInf;
      for (const float lse : lses[r]) largest = std::max<double>(largest, lse);
      double sum = 0;
      for (const float lse : lses[r]) sum += largest == -kInf ? 0 : std::exp(lse - largest);
      double share = 0;  // largest error as a share of its bound; NaN when a result is
      for (int32_t d = 0; d < shape.dim; ++d) {
        double want = 0;
        double magnitude = 0;
        for (int32_t p = 0; p < shape.parts; ++p) {
          if (lses[r][p] == -kInf) continue;
          const double term = std::exp(lses[r][p] - largest) / sum * os[r][p][d];
          want += term;
          magnitude += std::fabs(term);
        }
        // A few f32 roundings per term; the weights carry the rounding of LSE - max.
        const double bound = magnitude * (8.0 + 2.0 * shape.parts + 2.0 * spread) * 0x1p-24 +
                             ulp(shape.dtype_o, std::fabs(want));
        const double here = std::fabs(merge.o(r, d) - want) / bound;
        share = std::isnan(share) || here <= share ? share : here;
      }
      CHECK(share <= 1);
      if (!shape.want_lse) continue;
      const double want = largest + std::log(sum);
      if (largest == -kInf) {
        CHECK(merge.lse(r) == -kInf);
      } else {
        CHECK(std::fabs(merge.lse(r) - want) <= 1e-5 * std::max(1.0, std::fabs(want)));
      }
    }
  }
}

}  // namespace

TEST_CASE("combine: parts merge as the formula says, in every dtype") {
  for (const int32_t partial : {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_BF16}) {
    for (const int32_t o : {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_BF16}) {
      for (const int32_t parts : {1, 2, 3, 7, 40}) {
        Shape shape;
        shape.parts = parts;
        shape.dtype_partial = partial;
        shape.dtype_o = o;
        check_merge(shape, 0.3, 2);
        check_merge(shape, 0, 300);
        shape.dim = parts % 2 == 0 ? 1 : 577;
        shape.want_lse = parts != 3;
        check_merge(shape, 0.1, 1);
      }
    }
  }
}

TEST_CASE("combine: all parts empty give an empty state, not NaN") {
  for (const int32_t parts : {1, 2, 5}) {
    for (const Kernel &kernel : backends()) {
      Shape shape;
      shape.parts = parts;
      Device &device = Session::instance().device(kernel.backend);
      Merge merge(shape, device);
      for (int64_t r = 0; r < merge.result_rows(); ++r) {
        for (int32_t p = 0; p < parts; ++p)
          merge.set(p, r, std::vector<float>(shape.dim, std::nanf("")), -kInf);
      }
      REQUIRE(merge.run(Session::instance().handle(kernel.backend, 2), device) == FLASHATTN_STATUS_OK);
      for (int64_t r = 0; r < merge.result_rows(); ++r) {
        for (int32_t d = 0; d < shape.dim; ++d) CHECK(merge.o(r, d) == 0.0F);
        CHECK(merge.lse(r) == -kInf);
      }
    }
  }
}

TEST_CASE("combine: one full part among empty ones keeps its bits") {
  for (const Kernel &kernel : backends()) {
    Shape shape;
    shape.parts = 3;
    Device &device = Session::instance().device(kernel.backend);
    Merge merge(shape, device);
    Rng rng = rng_for("one full part");
    std::vector<std::vector<float>> full(merge.result_rows(), std::vector<float>(shape.dim));
    for (int64_t r = 0; r < merge.result_rows(); ++r) {
      for (float &value : full[r]) value = 1 + rng.bell();
      for (int32_t p = 0; p < 3; ++p) merge.set(p, r, full[r], p == r % 3 ? -7.25F : -kInf);
    }
    REQUIRE(merge.run(Session::instance().handle(kernel.backend, 2), device) == FLASHATTN_STATUS_OK);
    for (int64_t r = 0; r < merge.result_rows(); ++r) {
      for (int32_t d = 0; d < shape.dim; ++d) CHECK(merge.o(r, d) == full[r][d]);
      CHECK(merge.lse(r) == -7.25F);
    }
  }
}

TEST_CASE("combine: prefix and suffix computed apart equal the whole") {
  // 4096 + 150 keys; the suffix alone carries the sink. The whole is computed by the oracle.
  for (const int32_t dtype : {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_BF16}) {
    for (const bool sink : {false, true}) {
      const int32_t prefix = quick() ? 500 : 4096;
      const int32_t suffix = 150;
      Case whole;
      whole.name = "prefix and suffix";
      whole.dtype_q = whole.dtype_kv = dtype;
      whole.dtype_o = FLASHATTN_DTYPE_F32;  // partial results
      whole.heads_q = 4;
      whole.n_q = {5};
      whole.n_k = {prefix + suffix};
      whole.causal = 1;
      whole.sinks = sink ? PerHead::kHead : PerHead::kOff;
      const Contents contents = make_contents(whole, rng_for(whole.name));
      const Expected expected = oracle(whole, contents);
      const auto part = [&](int32_t first, int32_t count, bool with_sink) {
        Case c = whole;
        c.n_k = {count};
        c.causal = first > 0 ? 1 : 0;
        if (!with_sink) c.sinks = PerHead::kOff;
        Contents cut = make_contents(c, rng_for(c.name));
        cut.q = contents.q;
        cut.sinks = contents.sinks;
        for (int32_t j = 0; j < count; ++j) {
          for (int32_t h = 0; h < 2; ++h) {
            std::copy_n(contents.k.row(0, first + j, h), whole.dim, cut.k.row(0, j, h));
            std::copy_n(contents.v.row(0, first + j, h), whole.dim_v, cut.v.row(0, j, h));
          }
        }
        return std::pair{c, cut};
      };
      for (const Kernel &kernel : Session::instance().kernels()) {
        Device &device = Session::instance().device(kernel.backend);
        const auto [c0, contents0] = part(0, prefix, false);
        const auto [c1, contents1] = part(prefix, suffix, sink);
        PreparedCall call0(c0, contents0, device);
        PreparedCall call1(c1, contents1, device);
        if (!run_on(kernel, c0, call0, nullptr) || !run_on(kernel, c1, call1, nullptr)) continue;
        Shape shape;
        shape.batch = 1;
        shape.seq = 5;
        shape.dim = whole.dim_v;
        Merge merge(shape, device);
        for (int64_t i = 0; i < 5; ++i) {
          for (int64_t h = 0; h < 4; ++h) {
            for (int32_t p = 0; p < 2; ++p) {
              const PreparedCall &call = p == 0 ? call0 : call1;
              std::vector<float> row;
              for (int32_t d = 0; d < whole.dim_v; ++d) row.push_back(call.o_at(0, h, i, d));
              merge.set(p, i * 4 + h, row, call.lse_at(0, h, i));
            }
          }
        }
        REQUIRE(merge.run(Session::instance().handle(kernel.backend, 2), device) == FLASHATTN_STATUS_OK);
        INFO(kernel.label(), " seed ", run_seed());
        for (int64_t i = 0; i < 5; ++i) {
          for (int64_t h = 0; h < 4; ++h) {
            const int64_t row = expected.row(0, h, i);
            for (int32_t d = 0; d < whole.dim_v; ++d) {
              const double want = expected.o[row * whole.dim_v + d];
              CHECK(std::fabs(merge.o(i * 4 + h, d) - want) <=
                    2 * expected.reference_error + ulp(FLASHATTN_DTYPE_F32, std::fabs(want)));
            }
            CHECK(std::fabs(merge.lse(i * 4 + h) - expected.lse[row]) <=
                  1e-5 * std::max(1.0, std::fabs(expected.lse[row])));
          }
        }
      }
    }
  }
}

TEST_CASE("combine: bad arguments write nothing and name the field") {
  struct Fault {
    const char *field;
    void (*spoil)(flashattn_combine_args_t *args);
  };
  const Fault faults[] = {
      {"num_parts", [](flashattn_combine_args_t *args) { args->num_parts = 0; }},
      {"batch", [](flashattn_combine_args_t *args) { args->batch = -1; }},
      {"seqlen_q", [](flashattn_combine_args_t *args) { args->seqlen_q = -1; }},
      {"num_heads", [](flashattn_combine_args_t *args) { args->num_heads = 0; }},
      {"head_dim_v", [](flashattn_combine_args_t *args) { args->head_dim_v = 0; }},
      {"dtype_partial", [](flashattn_combine_args_t *args) { args->dtype_partial = 9; }},
      {"dtype_o", [](flashattn_combine_args_t *args) { args->dtype_o = FLASHATTN_DTYPE_U8; }},
      {"o_partial", [](flashattn_combine_args_t *args) { args->o_partial.data = nullptr; }},
      {"lse_partial", [](flashattn_combine_args_t *args) { args->lse_partial.data = nullptr; }},
      {"o", [](flashattn_combine_args_t *args) { args->o.stride_seq = 0; }},
      {"o_partial_stride_part", [](flashattn_combine_args_t *args) { args->o_partial_stride_part = -1; }},
      {"reserved", [](flashattn_combine_args_t *args) { args->reserved[1] = 1; }},
  };
  for (const Kernel &kernel : backends()) {
    Device &device = Session::instance().device(kernel.backend);
    for (const Fault &fault : faults) {
      Merge merge(Shape(), device);
      for (int64_t r = 0; r < merge.result_rows(); ++r) {
        for (int32_t p = 0; p < 2; ++p) merge.set(p, r, std::vector<float>(20, 1.0F), 0);
      }
      flashattn_combine_args_t args = FLASHATTN_COMBINE_ARGS_INIT;
      merge.fill(&args);
      fault.spoil(&args);
      const flashattn_status_t status =
          merge.attempt(Session::instance().handle(kernel.backend, 2), args, device);
      INFO((std::string(fault.field) + ": " + flashattn_last_error()));
      CHECK(status != FLASHATTN_STATUS_OK);
      CHECK(status < 300);
      CHECK(std::string(flashattn_last_error()).find(fault.field) != std::string::npos);
      CHECK(merge.check(true) == "");
    }
  }
}

}  // namespace flashattn::test
