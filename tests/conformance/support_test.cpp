// SPDX-License-Identifier: Apache-2.0
// The yardstick itself: conversions, oracle against numbers worked out by hand, and that breaches are seen.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/conformance/check.h"
#include "tests/support/dtype.h"

namespace flashattn::test {
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
}

TEST_CASE("support: every f16 and bf16 value survives the round trip") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float f16 = f16_to_float(half);
    const float bf16 = bf16_to_float(half);
    REQUIRE((std::isnan(f16) ? std::isnan(f16_to_float(f16_from_float(f16))) : f16_from_float(f16) == half));
    REQUIRE((std::isnan(bf16) ? std::isnan(bf16_to_float(bf16_from_float(bf16)))
                              : bf16_from_float(bf16) == half));
  }
}

TEST_CASE("support: conversions round to nearest even") {
  CHECK(f16_to_float(0x3c00) == 1.0F);
  CHECK(f16_to_float(0xc000) == -2.0F);
  CHECK(f16_to_float(0x0001) == 0x1p-24F);
  CHECK(f16_to_float(0x7bff) == 65504.0F);
  CHECK(f16_from_float(1.0F + 0x1p-11F) == 0x3c00);
  CHECK(f16_from_float(1.0F + 0x3p-11F) == 0x3c02);
  CHECK(f16_from_float(65519.0F) == 0x7bff);
  CHECK(f16_from_float(65520.0F) == 0x7c00);
  CHECK(f16_from_float(0x1p-25F) == 0);
  CHECK(f16_from_float(0x1.8p-25F) == 1);
  CHECK(f16_from_float(-0x1.ffep-15F) == 0x8400);
  CHECK(bf16_to_float(0x3f80) == 1.0F);
  CHECK(bf16_from_float(1.0F + 0x1p-8F) == 0x3f80);
  CHECK(bf16_from_float(1.0F + 0x3p-8F) == 0x3f82);
  CHECK(bf16_from_float(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(ulp(FLASHATTN_DTYPE_F32, 1.5) == 0x1p-23);
  CHECK(ulp(FLASHATTN_DTYPE_F16, 1000.0) == 0.5);
  CHECK(ulp(FLASHATTN_DTYPE_F16, 0.0) == 0x1p-24);
  CHECK(ulp(FLASHATTN_DTYPE_BF16, 1.0) == 0x1p-7);
}

TEST_CASE("support: poison is NaN in every float type") {
  const uint16_t words[2] = {kPoison, kPoison};
  CHECK(std::isnan(decode(FLASHATTN_DTYPE_F32, words)));
  CHECK(std::isnan(decode(FLASHATTN_DTYPE_F16, words)));
  CHECK(std::isnan(decode(FLASHATTN_DTYPE_BF16, words)));
}

TEST_CASE("support: the oracle against numbers worked out by hand") {
  // One query, three keys with q.k = 0, ln 2, ln 4, values 1, 2, 3.
  Case c;
  c.name = "by hand";
  c.heads_q = c.heads_kv = 1;
  c.dim = c.dim_v = 1;
  c.n_q = {1};
  c.n_k = {3};
  c.scale = 1;
  c.edit = [](Contents &contents) {
    contents.q.data = {1};
    contents.k.data = {0, std::log(2.0F), std::log(4.0F)};
    contents.v.data = {1, 2, 3};
  };
  const auto result = [](const Case &with) {
    const Expected expected = oracle(with, make_contents(with, Rng(1)));
    return std::pair{expected.o.back(), expected.lse.back()};
  };
  const auto near = [](std::pair<double, double> got, double o, double lse) {
    CHECK(got.first == doctest::Approx(o).epsilon(1e-6));
    CHECK(got.second == doctest::Approx(lse).epsilon(1e-6));
  };
  near(result(c), (1 + 2 * 2 + 4 * 3) / 7.0, std::log(7.0));

  Case with = c;
  with.causal = 1;
  with.diag_offset = -1;  // sees keys 0 and 1
  near(result(with), (1 + 2 * 2) / 3.0, std::log(3.0));

  with = c;
  with.window = true;
  with.left = 1;
  with.right = 0;  // sees keys 1 and 2
  near(result(with), (2 * 2 + 4 * 3) / 6.0, std::log(6.0));

  with = c;
  with.window = true;
  with.left = 0;
  with.right = 5;
  with.diag_offset = -2;  // the diagonal is at key 0
  near(result(with), (1 + 2 * 2 + 4 * 3) / 7.0, std::log(7.0));

  with = c;
  with.sinks = PerHead::kHead;
  with.sink_value = static_cast<float>(std::log(9.0));
  near(result(with), (1 + 2 * 2 + 4 * 3) / 16.0, std::log(16.0));

  with = c;
  with.alibi = PerHead::kHead;
  with.edit = [&c](Contents &contents) {
    c.edit(contents);
    contents.slopes = {static_cast<float>(std::log(2.0))};
  };  // distances 2, 1, 0 divide the weights by 4, 2, 1
  near(result(with), (0.25 * 1 + 1 * 2 + 4 * 3) / 5.25, std::log(5.25));

  with = c;
  with.softcap = 1;
  const double e1 = std::exp(std::tanh(std::log(2.0)));
  const double e2 = std::exp(std::tanh(std::log(4.0)));
  near(result(with), (1 + 2 * e1 + 3 * e2) / (1 + e1 + e2), std::log(1 + e1 + e2));

  with = c;
  with.bias.dtype = FLASHATTN_DTYPE_F32;
  with.edit = [&c](Contents &contents) {
    c.edit(contents);
    contents.bias.data = {std::log(3.0F), -std::numeric_limits<float>::infinity(), 0};
  };
  near(result(with), (3 * 1 + 4 * 3) / 7.0, std::log(7.0));

  with.causal = 1;
  with.diag_offset = -3;
  const std::pair<double, double> empty = result(with);
  CHECK(empty.first == 0);
  CHECK(empty.second == -kInf);
}

TEST_CASE("support: the reference is wrong by about what its roundings say") {
  for (const int32_t dtype : {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_BF16}) {
    Case c;
    c.dtype_q = c.dtype_kv = c.dtype_o = dtype;
    c.n_k = {200};
    const Expected expected = oracle(c, make_contents(c, rng_for("reference")));
    CHECK(expected.reference_error > 0.05 * unit_roundoff(dtype));
    CHECK(expected.reference_error < 20 * unit_roundoff(dtype));
  }
}

TEST_CASE("support: stray writes, stale rows and wrong values are seen") {
  const std::unique_ptr<Device> device = make_host_device();
  Case c;
  c.name = "breaches";
  c.o.pad_dim = 2;
  c.seqused_q = true;
  c.spare_q = 1;
  const Contents contents = make_contents(c, rng_for(c.name));
  const Expected expected = oracle(c, contents);
  PreparedCall call(c, contents, *device);
  auto *o = static_cast<float *>(call.call.o.data);
  auto *lse = static_cast<float *>(call.call.lse.data);
  const auto write_right_answer = [&] {
    call.reset_outputs();
    for (int64_t i = 0; i < c.n_q[0]; ++i) {
      for (int64_t h = 0; h < c.heads_q; ++h) {
        const int64_t row = expected.row(0, h, i);
        for (int64_t d = 0; d < c.dim_v; ++d) {
          o[i * call.call.o.stride_seq + h * call.call.o.stride_head + d] =
              static_cast<float>(expected.o[row * c.dim_v + d]);
        }
        lse[i * call.call.lse.stride_seq + h * call.call.lse.stride_head] =
            static_cast<float>(expected.lse[row]);
      }
    }
  };
  const auto verdict = [&] {
    const std::string error = call.fetch();
    double share = 0;
    return error.empty() ? call.compare(expected, &share) : error;
  };
  write_right_answer();
  CHECK(verdict() == "");
  CHECK(!call.outputs_untouched());

  call.reset_outputs();
  CHECK(verdict() != "");  // nothing written
  CHECK(call.outputs_untouched());

  write_right_answer();
  o[c.dim_v] = 0;  // the gap between two heads
  CHECK(verdict() != "");

  write_right_answer();
  o[c.n_q[0] * call.call.o.stride_seq] = 0;  // a row past n_q
  CHECK(verdict() != "");

  write_right_answer();
  o[5] += 2e-5F * std::max(1.0F, std::fabs(o[5]));
  CHECK(verdict() != "");

  write_right_answer();
  lse[2] += 4e-5F * std::max(1.0F, std::fabs(lse[2]));
  CHECK(verdict() != "");

  write_right_answer();
  static_cast<float *>(call.call.k.data)[3] = 0;  // an input
  CHECK(verdict() != "");
}

TEST_CASE("support: a write to a guard is seen") {
  const std::unique_ptr<Device> device = make_host_device();
  GuardedBuffer buffer(*device, 10, 4);
  for (const int at : {0, 9}) {
    buffer.upload();
    static_cast<uint8_t *>(buffer.device_data())[at] = 1;
    buffer.download();
    CHECK(buffer.unexpected_write(std::vector<uint8_t>(10, 1), 1) == "");
    CHECK(buffer.unexpected_write({}, 1) != "");
  }
#if !defined(__SANITIZE_ADDRESS__)  // there the write itself is the error
  for (const int at : {-1, 10}) {
    buffer.upload();
    static_cast<uint8_t *>(buffer.device_data())[at] = 1;
    buffer.download();
    CHECK(buffer.unexpected_write(std::vector<uint8_t>(10, 1), 1) != "");
  }
#endif
}

}  // namespace flashattn::test
