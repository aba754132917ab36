// SPDX-License-Identifier: Apache-2.0
// Faults that attention libraries have had in the field, each as a case with its right value.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "tests/conformance/check.h"
#include "tests/support/dtype.h"

namespace flashattn::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

void set_dtypes(Case *c, int32_t dtype) {
  c->dtype_q = c->dtype_kv = c->dtype_o = dtype;
}

void set_heads(Case *c, int32_t q, int32_t kv) {
  c->heads_q = q;
  c->heads_kv = kv;
}

Case ragged(std::vector<int32_t> n_q, std::vector<int32_t> n_k, int32_t heads, int32_t dim) {
  Case c;
  c.layout_q = c.layout_kv = FLASHATTN_LAYOUT_RAGGED;
  c.n_q = std::move(n_q);
  c.n_k = std::move(n_k);
  set_heads(&c, heads, heads);
  c.dim = c.dim_v = dim;
  return c;
}

// Every logical value of O and LSE, whatever the layout.
std::vector<float> results(const Case &c, const PreparedCall &call) {
  std::vector<float> values;
  for (int32_t b = 0; b < c.batch(); ++b) {
    for (int32_t h = 0; h < c.heads_q; ++h) {
      for (int32_t i = 0; i < c.n_q[b]; ++i) {
        for (int32_t d = 0; d < c.dim_v; ++d) values.push_back(call.o_at(b, h, i, d));
        values.push_back(call.lse_at(b, h, i));
      }
    }
  }
  return values;
}

// Runs several cases over the same contents on every kernel and demands the same bits of all of them.
void check_same_bits(const std::vector<Case> &cases) {
  for (const Kernel &kernel : Session::instance().kernels()) {
    std::vector<float> first;
    const Contents contents = make_contents(cases[0], rng_for(cases[0].name));
    const Expected expected = oracle(cases[0], contents);
    for (const Case &c : cases) {
      PreparedCall call(c, contents, Session::instance().device(kernel.backend));
      if (!run_on(kernel, c, call, &expected)) break;
      if (first.empty()) first = results(c, call);
      INFO(kernel.label(), " on ", describe(c));
      CHECK(results(c, call) == first);
    }
  }
}

}  // namespace

TEST_CASE("field: ragged causal with more queries than keys") {
  Case c = ragged({76, 34, 146}, {1, 1, 1}, 1, 32);
  c.name = "more queries than keys";
  c.causal = 1;
  check_case(c);
}

TEST_CASE("field: causal with twice as many queries as keys leaves the first half empty") {
  Case c;
  c.name = "2048 queries, 1024 keys";
  c.n_q = {2048};
  c.n_k = {1024};
  set_heads(&c, 1, 1);
  c.dim = c.dim_v = 8;
  c.causal = 1;
  c.verify_every = quick() ? 16 : 2;
  check_case(c);
}

TEST_CASE("field: an empty row is O = 0 and LSE = -inf on every path") {
  for (const int32_t n_q : {1, 20}) {
    for (const int32_t splits : {0, 1, 3}) {
      Case c;
      c.name = "empty rows";
      c.n_q = {n_q, n_q};
      c.n_k = {12, 12};
      c.num_splits = splits;
      c.causal = 1;
      c.diag_offset = -n_q;
      check_case(c);
      c.layout_kv = FLASHATTN_LAYOUT_PAGED;
      c.n_k = {12, 0};
      check_case(c);
      c.layout_q = c.layout_kv = FLASHATTN_LAYOUT_RAGGED;
      check_case(c);
      c.bias.dtype = FLASHATTN_DTYPE_U8;
      c.bias.hidden = 1;
      c.layout_q = FLASHATTN_LAYOUT_DENSE;
      check_case(c);
    }
  }
}

TEST_CASE("field: a NaN row sum stays NaN") {
  for (const int32_t splits : {0, 3}) {
    Case c;
    c.name = "NaN query";
    c.n_q = {3};
    c.n_k = {50};
    c.num_splits = splits;
    c.edit = [](Contents &contents) { contents.q.row(0, 1, 0)[2] = std::nanf(""); };
    check_case(c);
  }
}

TEST_CASE("field: one visible key at q.k = -524288 gives exactly its V") {
  for (const int32_t dtype : {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_BF16}) {
    for (const int32_t splits : {0, 2}) {
      Case c;
      c.name = "one key, far down";
      set_dtypes(&c, dtype);
      c.n_q = {4};
      c.n_k = {40};
      c.scale = 1;
      c.num_splits = splits;
      c.window = true;
      c.edit = [](Contents &contents) {
        std::fill(contents.q.data.begin(), contents.q.data.end(), 0.0F);
        std::fill(contents.k.data.begin(), contents.k.data.end(), 0.0F);
        for (int64_t h = 0; h < 2; ++h) {
          for (int64_t i = 0; i < 4; ++i) contents.q.row(0, i, h)[0] = 1024;
          for (int64_t j = 0; j < 40; ++j) contents.k.row(0, j, h)[0] = -512;
        }
      };
      check_case(c);
      c.window = false;
      c.n_k = {1};
      c.edit = [](Contents &contents) {
        std::fill(contents.q.data.begin(), contents.q.data.end(), 0.0F);
        std::fill(contents.k.data.begin(), contents.k.data.end(), 0.0F);
        for (int64_t h = 0; h < 2; ++h) {
          for (int64_t i = 0; i < 4; ++i) contents.q.row(0, i, h)[0] = 1024;
          contents.k.row(0, 0, h)[0] = -512;
        }
      };
      check_case(c);
    }
  }
}

TEST_CASE("field: softcap comes before the mask, and is c * tanh(s / c)") {
  for (const int32_t n_q : {1, 30}) {
    Case c;
    c.name = "softcap and mask";
    c.n_q = {n_q};
    c.n_k = {50};
    c.softcap = 4;
    c.q_spread = 15;
    check_case(c);
    c.causal = 1;
    check_case(c);
    c.bias.dtype = FLASHATTN_DTYPE_F32;
    c.bias.hidden = 0.5;
    check_case(c);
  }
}

TEST_CASE("field: window left = W - 1 sees exactly W keys") {
  for (const Kernel &kernel : Session::instance().kernels()) {
    for (const int32_t width : {1, 2, 16, 17, 64}) {
      for (const int32_t n_q : {1, 100}) {
        Case c;
        c.name = "window width";
        c.n_q = {n_q};
        c.n_k = {100};
        c.window = true;
        c.left = width - 1;
        c.edit = [](Contents &contents) { std::fill(contents.q.data.begin(), contents.q.data.end(), 0.0F); };
        PreparedCall call(c, make_contents(c, rng_for(c.name)), Session::instance().device(kernel.backend));
        if (!run_on(kernel, c, call, nullptr)) continue;
        // All scores are zero, so that exp(LSE) counts the keys.
        CHECK(std::lround(std::exp(call.lse_at(0, 0, n_q - 1))) == width);
        if (n_q > width) CHECK(std::lround(std::exp(call.lse_at(0, 1, width - 1))) == width);
      }
    }
  }
}

TEST_CASE("field: window (S - 1, 0) equals causal") {
  Case c;
  c.name = "window against causal";
  const int32_t n = quick() ? 700 : 16384;
  c.n_q = {n};
  c.n_k = {n};
  set_heads(&c, 1, 1);
  c.dim = c.dim_v = 8;
  c.verify_every = n / 60;
  const Contents contents = make_contents(c, rng_for(c.name));
  c.causal = 1;
  const Expected expected = oracle(c, contents);
  Case window = c;
  window.causal = 0;
  window.window = true;
  window.left = n - 1;
  for (const Kernel &kernel : Session::instance().kernels()) {
    if (kernel.name.empty()) continue;
    PreparedCall causal_call(c, contents, Session::instance().device(kernel.backend));
    PreparedCall window_call(window, contents, Session::instance().device(kernel.backend));
    run_on(kernel, c, causal_call, &expected);
    run_on(kernel, window, window_call, &expected);
  }
}

TEST_CASE("field: ALiBi distance is one formula on all paths, with the query head's slope") {
  for (const int32_t n_q : {1, 3, 40}) {
    for (const int32_t splits : {0, 3}) {
      Case c;
      c.name = "ALiBi";
      set_heads(&c, 8, 2);
      c.n_q = {n_q, n_q};
      c.n_k = {75, 75};
      c.alibi = PerHead::kBatchHead;
      c.num_splits = splits;
      check_case(c);
      c.causal = 1;
      check_case(c);
      c.layout_kv = FLASHATTN_LAYOUT_PAGED;
      c.n_k = {75, 20};
      check_case(c);
    }
  }
}

TEST_CASE("field: a sequence without keys in a ragged batch") {
  Case c = ragged({1, 1}, {0, 2}, 2, 68);
  c.name = "no keys for the first";
  check_case(c);
  c.causal = 1;
  check_case(c);
}

TEST_CASE("field: ragged with at most one query, and none for one sequence") {
  Case c = ragged({1, 0}, {3, 5}, 9, 64);
  c.name = "one query";
  c.heads_kv = 3;
  check_case(c);
}

TEST_CASE("field: query rows beyond the last cu_seqlens entry stay untouched") {
  Case c = ragged({5, 9}, {20, 30}, 2, 32);
  c.name = "rows beyond the batch";
  c.lead_rows = 3;
  c.tail_rows = 7;
  check_case(c);
}

TEST_CASE("field: NaN past the used length never reaches a result") {
  struct Cache {
    int32_t rows;
    std::vector<int32_t> used;
  };
  for (const Cache &cache : {Cache{3, {1, 3}}, Cache{128, {32, 64, 96, 48}}}) {
    for (const int32_t n_q : {1, 17}) {
      for (const int32_t splits : {0, 3}) {
        Case c;
        c.name = "NaN in the cache";
        c.n_q.assign(cache.used.size(), n_q);
        c.n_k = cache.used;
        c.spare_kv = cache.rows - c.max_n_k();
        c.seqused_kv = true;
        c.dim = c.dim_v = 64;
        c.num_splits = splits;
        check_case(c);
      }
    }
  }
}

TEST_CASE("field: a paged cache equals the contiguous one") {
  for (const int32_t page : {1, 3, 16, 17, 64, 256}) {
    Case c;
    c.name = "pages of " + std::to_string(page);
    c.n_q = {1, 1};
    c.n_k = {200, 200};
    set_heads(&c, 4, 2);
    Case paged = c;
    paged.page_size = page;
    paged.layout_kv = FLASHATTN_LAYOUT_PAGED;
    Case csr = paged;
    csr.layout_kv = FLASHATTN_LAYOUT_PAGED_CSR;
    check_same_bits({c, paged, csr});
  }
}

TEST_CASE("field: strides of 2^30 elements and more") {
  // Address space is reserved and a page here and there touched: row 3 of the batch lies 12 GiB past row 0.
  constexpr int64_t kStride = (int64_t{1} << 30) + 64;
  constexpr int32_t kBatch = 4;
  constexpr int32_t kDim = 16;
  constexpr size_t kBytes = kStride * kBatch * sizeof(float);
  void *base =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    MESSAGE("skipped: this machine does not let a process reserve 16 GiB of address space");
    return;
  }
  auto *memory = static_cast<float *>(base);
  Case c;
  c.name = "huge strides";
  set_heads(&c, 1, 1);
  c.n_q.assign(kBatch, 2);
  c.n_k.assign(kBatch, 5);
  c.dim = c.dim_v = kDim;
  const Contents contents = make_contents(c, rng_for(c.name));
  const Expected expected = oracle(c, contents);
  // Each tensor is a stripe of its own within every stride.
  const auto stripe = [&](int64_t offset) {
    return flashattn_tensor_t{memory + offset, kStride, kDim, kDim};
  };
  const auto row = [&](int64_t offset, int64_t b, int64_t s) {
    return memory + offset + b * kStride + s * kDim;
  };
  constexpr int64_t kQ = 0, kK = 1024, kV = 2048, kO = 3072;
  for (int32_t b = 0; b < kBatch; ++b) {
    for (int32_t s = 0; s < 2; ++s) std::copy_n(contents.q.row(b, s, 0), kDim, row(kQ, b, s));
    for (int32_t s = 0; s < 5; ++s) {
      std::copy_n(contents.k.row(b, s, 0), kDim, row(kK, b, s));
      std::copy_n(contents.v.row(b, s, 0), kDim, row(kV, b, s));
    }
  }
  for (const Kernel &kernel : Session::instance().kernels()) {
    if (!Session::instance().device(kernel.backend).host_memory()) continue;
    PreparedCall call(c, contents, Session::instance().device(kernel.backend));
    std::snprintf(call.problem.kernel, sizeof(call.problem.kernel), "%s", kernel.name.c_str());
    call.call.q = stripe(kQ);
    call.call.k = stripe(kK);
    call.call.v = stripe(kV);
    call.call.o = stripe(kO);
    for (int32_t b = 0; b < kBatch; ++b) std::fill_n(row(kO, b, 0), 2 * kDim, std::nanf(""));
    INFO(kernel.label());
    const flashattn_status_t status = flashattn_attention(Session::instance().handle(kernel.backend, 2),
                                                          &call.problem, &call.call, nullptr);
    if (status == FLASHATTN_STATUS_UNSUPPORTED && !kernel.complete) continue;
    REQUIRE_MESSAGE(status == FLASHATTN_STATUS_OK, std::string(flashattn_last_error()));
    for (int32_t b = 0; b < kBatch; ++b) {
      for (int32_t i = 0; i < 2; ++i) {
        for (int32_t d = 0; d < kDim; ++d) {
          const double want = expected.o[expected.row(b, 0, i) * kDim + d];
          const double bound = 2 * expected.reference_error + ulp(FLASHATTN_DTYPE_F32, std::fabs(want));
          CHECK(std::fabs(row(kO, b, i)[d] - want) <= bound);
        }
      }
    }
  }
  munmap(base, kBytes);
}

TEST_CASE("field: 80,000 sequences of 16 heads, and 71,280 queries") {
  Case c;
  c.name = "more than 65535 blocks";
  c.dim = c.dim_v = 4;
  if (quick()) {
    c.n_q.assign(5000, 1);
    c.n_k.assign(5000, 2);
  } else {
    c.n_q.assign(80000, 1);
    c.n_k.assign(80000, 2);
  }
  set_heads(&c, 16, 16);
  c.verify_every = 7;
  Case rows;
  rows.name = "more than 65535 rows";
  rows.n_q = {71280};
  rows.n_k = {3};
  set_heads(&rows, 1, 1);
  rows.dim = rows.dim_v = 8;
  rows.verify_every = 7;
  for (const Case &big : {c, rows}) {
    const Contents contents = make_contents(big, rng_for(big.name));
    const Expected expected = oracle(big, contents);
    for (const Kernel &kernel : Session::instance().kernels()) {
      PreparedCall call(big, contents, Session::instance().device(kernel.backend));
      run_on(kernel, big, call, &expected);
    }
  }
}

TEST_CASE("field: 33,728 zero keys give zeros") {
  Case c;
  c.name = "zeros";
  set_dtypes(&c, FLASHATTN_DTYPE_F16);
  set_heads(&c, 1, 1);
  c.n_q = {4};
  c.n_k = {33728};
  c.dim = c.dim_v = quick() ? 64 : 512;
  c.q_mean = c.q_spread = c.k_mean = c.k_spread = c.v_mean = c.v_spread = 0;
  const Contents contents = make_contents(c, rng_for(c.name));
  for (const Kernel &kernel : Session::instance().kernels()) {
    PreparedCall call(c, contents, Session::instance().device(kernel.backend));
    if (!run_on(kernel, c, call, nullptr)) continue;
    INFO(kernel.label());
    for (int32_t i = 0; i < 4; ++i) {
      for (int32_t d = 0; d < c.dim_v; ++d) REQUIRE(call.o_at(0, 0, i, d) == 0.0F);
      CHECK(call.lse_at(0, 0, i) == doctest::Approx(std::log(33728.0)).epsilon(1e-5));
    }
  }
}

TEST_CASE("field: one key more and one less than every tile edge") {
  Rng rng = rng_for("tile edges");
  for (int32_t edge = 16; edge <= 256; edge += 16) {
    for (const int32_t delta : {-1, 0, 1}) {
      Case c;
      c.name = "edge " + std::to_string(edge + delta);
      c.n_q = {rng.pick({1, 7, 16})};
      c.n_k = {edge + delta};
      c.dim = c.dim_v = 16;
      check_case(c);
    }
  }
}

TEST_CASE("field: layouts of the same values give the same bits") {
  for (const int32_t dtype : {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_BF16}) {
    for (const int32_t n_q : {1, 40}) {
      Case c;
      c.name = "layouts";
      set_dtypes(&c, dtype);
      set_heads(&c, 4, 2);
      c.n_q = {n_q, n_q};
      c.n_k = {90, 90};
      Case transposed = c;
      transposed.q.order = transposed.k.order = transposed.v.order = transposed.o.order = Order::kBHS;
      transposed.lse_order = Order::kBSH;
      Case sliced = c;
      sliced.q.pad_inner = sliced.k.pad_inner = sliced.v.pad_inner = 6;
      Case mixed = c;
      mixed.k.order = Order::kHBS;
      mixed.v.pad_dim = 8;
      check_same_bits({c, transposed, sliced, mixed});
    }
  }
}

TEST_CASE("field: V may be part of K's rows, as in latent attention") {
  for (const int32_t n_q : {1, 12}) {
    for (const int32_t layout : {FLASHATTN_LAYOUT_DENSE, FLASHATTN_LAYOUT_PAGED}) {
      Case c;
      c.name = "V inside K";
      set_dtypes(&c, FLASHATTN_DTYPE_BF16);
      set_heads(&c, 16, 1);
      c.dim = 576;
      c.dim_v = 512;
      c.n_q = {n_q};
      c.n_k = {150};
      c.causal = 1;
      c.layout_kv = layout;
      c.edit = [](Contents &contents) {
        for (int64_t j = 0; j < 150; ++j) std::copy_n(contents.k.row(0, j, 0), 512, contents.v.row(0, j, 0));
      };
      const Contents contents = make_contents(c, rng_for(c.name));
      const Expected expected = oracle(c, contents);
      for (const Kernel &kernel : Session::instance().kernels()) {
        PreparedCall call(c, contents, Session::instance().device(kernel.backend));
        call.call.v = call.call.k;
        run_on(kernel, c, call, &expected);
      }
    }
  }
}

TEST_CASE("field: bases one element off alignment") {
  for (const int32_t dtype : {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_BF16}) {
    for (const int32_t n_q : {1, 30}) {
      Case c;
      c.name = "misaligned";
      set_dtypes(&c, dtype);
      c.n_q = {n_q};
      c.n_k = {70};
      c.q.misalign = c.k.misalign = c.v.misalign = c.o.misalign = 1;
      check_case(c);
    }
  }
}

TEST_CASE("field: odd head dimensions are padded inside") {
  for (const int32_t dim : {8, 40, 72, 80, 96, 100, 112, 160, 192, 255}) {
    for (const int32_t n_q : {1, 20}) {
      Case c;
      c.name = "odd head dimension";
      c.dtype_kv = FLASHATTN_DTYPE_F16;
      c.n_q = {n_q};
      c.n_k = {33};
      c.dim = c.dim_v = dim;
      check_case(c);
    }
  }
}

TEST_CASE("field: LSE is exactly batch * heads * n_q floats between intact guards") {
  Case c;
  c.name = "LSE";
  set_heads(&c, 3, 1);
  c.n_q = {11, 11};
  c.n_k = {23, 23};
  for (const Kernel &kernel : Session::instance().kernels()) {
    const Contents contents = make_contents(c, rng_for(c.name));
    PreparedCall call(c, contents, Session::instance().device(kernel.backend));
    if (!run_on(kernel, c, call, nullptr)) continue;
    // fetch() has compared the guards; the buffer has no element to spare.
    CHECK(call.snapshot().size() == (2 * 3 * 11) * sizeof(float) * (c.dim_v + 1));
  }
}

TEST_CASE("field: no option is dropped on any path") {
  // Each option must matter for its case: with and without it the oracle differs by far more than the bound.
  struct Option {
    const char *name;
    void (*set)(Case *c);
  };
  const Option options[] = {
      {"scale", [](Case *c) { c->scale = 0.9F; }},
      {"softcap", [](Case *c) { c->softcap = 0.8F; }},
      {"causal", [](Case *c) { c->causal = 1; }},
      {"window", [](Case *c) { c->window = true, c->left = 5, c->right = -1; }},
      {"window right", [](Case *c) { c->window = true, c->left = -1, c->diag_offset = -9; }},
      {"diag_offset", [](Case *c) { c->causal = 1, c->diag_offset = -15; }},
      {"diag_offsets",
       [](Case *c) {
         c->causal = 1, c->diag_offsets = {-3, -17};
       }},
      {"ALiBi", [](Case *c) { c->alibi = PerHead::kHead; }},
      {"sinks", [](Case *c) { c->sinks = PerHead::kHead, c->sink_value = 3; }},
      {"bias", [](Case *c) { c->bias.dtype = FLASHATTN_DTYPE_F16; }},
      {"boolean mask", [](Case *c) { c->bias.dtype = FLASHATTN_DTYPE_U8, c->bias.hidden = 0.6; }},
  };
  for (const Option &option : options) {
    for (const int32_t n_q : {1, 20}) {
      for (const int32_t splits : {0, 4}) {
        Case plain;
        plain.name = std::string("option ") + option.name;
        plain.n_q = {n_q, n_q};
        plain.n_k = {60, 60};
        plain.num_splits = splits;
        Case with = plain;
        option.set(&with);
        const Contents contents = make_contents(with, rng_for(with.name));
        const Expected without_it = oracle(plain, contents);
        const Expected with_it = oracle(with, contents);
        double effect = 0;
        for (size_t n = 0; n < with_it.o.size(); ++n) {
          effect = std::max(effect, std::fabs(with_it.o[n] - without_it.o[n]));
        }
        const bool shifts_nothing =
            n_q == 1 && with.causal != 0 && with.diag_offset == 0 && with.diag_offsets.empty();
        if (!shifts_nothing) CHECK(effect > 20 * with_it.reference_error);
        check_case(with);
      }
    }
  }
}

TEST_CASE("field: masked keys count nothing even when every score is far below zero") {
  // A finite stand-in for -inf, or a clamp, would let masked keys weigh as much as visible ones here.
  for (const int32_t n_q : {1, 25}) {
    Case c;
    c.name = "visible keys at -1e6";
    c.n_q = {n_q};
    c.n_k = {60};
    c.causal = 1;
    c.diag_offset = -5;
    c.q_mean = 400;
    c.k_mean = -400;
    check_case(c);
    c.num_splits = 4;
    check_case(c);
    c.bias.dtype = FLASHATTN_DTYPE_F32;
    c.bias.hidden = 0.8;
    c.edit = [](Contents &contents) {
      for (float &value : contents.bias.data) value = value == -kInf ? value : -1e6F;
    };
    check_case(c);
  }
}

}  // namespace flashattn::test
