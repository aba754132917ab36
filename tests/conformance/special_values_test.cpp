// SPDX-License-Identifier: Apache-2.0
// NaN and infinities that a row does see propagate as IEEE arithmetic would, and no further.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "tests/conformance/check.h"

namespace flashattn::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// n_q and splits pick the paths: decode, tiles, split with merge.
template <typename Edit>
void check_paths(const char *name, const Edit &edit) {
  for (const int32_t dtype : {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_BF16}) {
    for (const int32_t n_q : {1, 20}) {
      for (const int32_t splits : {0, 3}) {
        Case c;
        c.name = name;
        c.dtype_q = c.dtype_kv = c.dtype_o = dtype;
        c.n_q = {n_q, n_q};
        c.n_k = {90, 90};
        c.num_splits = splits;
        c.edit = edit;
        check_case(c);
      }
    }
  }
}

}  // namespace

TEST_CASE("special: NaN in one query touches that row only") {
  check_paths("NaN in Q", [](Contents &contents) { contents.q.row(0, 0, 1)[3] = kNaN; });
}

TEST_CASE("special: inf in one query touches that row only") {
  check_paths("inf in Q", [](Contents &contents) { contents.q.row(1, 0, 0)[3] = kInf; });
}

TEST_CASE("special: NaN in a visible key makes every row that sees it NaN") {
  for (const int64_t j : {0, 40, 89}) {
    check_paths("NaN in K", [j](Contents &contents) { contents.k.row(0, j, 0)[5] = kNaN; });
  }
}

TEST_CASE("special: +inf in a visible key makes rows with a score of +inf NaN") {
  check_paths("inf in K", [](Contents &contents) { contents.k.row(0, 50, 0)[0] = kInf; });
}

TEST_CASE("special: NaN and inf in a visible V stay in their column") {
  check_paths("NaN in V", [](Contents &contents) {
    contents.v.row(0, 7, 0)[4] = kNaN;
    contents.v.row(1, 77, 1)[9] = kInf;
    contents.v.row(1, 3, 0)[31] = -kInf;
  });
}

// The first element is out of every product but those of query 1, head 0 with the given keys, whose scores are -1e60.
TEST_CASE("special: a score that overflows to -inf hides its key") {
  for (const auto &[first_key, end_key] : {std::pair{33, 34}, {0, 64}, {0, 90}}) {
    for (const int32_t dtype : {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_BF16}) {
      for (const int32_t splits : {0, 3}) {
        Case c;
        c.name = "overflow to -inf";
        c.dtype_q = c.dtype_kv = c.dtype_o = dtype;
        c.heads_q = 4;
        c.n_q = {2, 2};
        c.n_k = {90, 90};
        c.num_splits = splits;
        c.edit = [&c, first = first_key, end = end_key](Contents &contents) {
          for (int64_t b = 0; b < c.batch(); ++b) {
            for (int64_t i = 0; i < c.n_q[b]; ++i) {
              for (int64_t h = 0; h < c.heads_q; ++h) contents.q.row(b, i, h)[0] = 0;
            }
            for (int64_t j = 0; j < c.n_k[b]; ++j) {
              for (int64_t h = 0; h < c.heads_kv; ++h) contents.k.row(b, j, h)[0] = 0;
            }
          }
          contents.q.row(1, 1, 0)[0] = 1e30F;
          for (int64_t j = first; j < end; ++j) contents.k.row(1, j, 0)[0] = -1e30F;
        };
        check_case(c);
      }
    }
  }
}

TEST_CASE("special: NaN in the bias of a visible key") {
  Case c;
  c.name = "NaN in bias";
  c.bias.dtype = FLASHATTN_DTYPE_F32;
  c.n_q = {4};
  c.n_k = {40};
  c.edit = [](Contents &contents) { contents.bias.data[17] = kNaN; };
  check_case(c);
}

TEST_CASE("special: a NaN or infinite sequence does not reach its neighbours") {
  Case c;
  c.name = "neighbours";
  c.layout_q = c.layout_kv = FLASHATTN_LAYOUT_RAGGED;
  c.n_q = {3, 5, 2};
  c.n_k = {20, 33, 40};
  c.edit = [](Contents &contents) {
    for (int64_t j = 0; j < 33; ++j) {
      for (int64_t h = 0; h < 2; ++h) {
        std::fill_n(contents.k.row(1, j, h), contents.k.dim, kNaN);
        std::fill_n(contents.v.row(1, j, h), contents.v.dim, kInf);
      }
    }
  };
  check_case(c);
  c.layout_kv = FLASHATTN_LAYOUT_PAGED;
  check_case(c);
}

}  // namespace flashattn::test
