// SPDX-License-Identifier: Apache-2.0
// Element types, head dimensions, head counts and lengths.
#include "tests/conformance/check.h"

namespace flashattn::test {
namespace {
constexpr int32_t kDtypes[] = {FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_BF16};

void set_dtypes(Case *c, int32_t q, int32_t kv, int32_t o) {
  c->dtype_q = q;
  c->dtype_kv = kv;
  c->dtype_o = o;
}

void set_dims(Case *c, int32_t dim, int32_t dim_v) {
  c->dim = dim;
  c->dim_v = dim_v;
}
}  // namespace

std::vector<Case> dtype_cases() {
  std::vector<Case> cases;
  for (const int32_t q : kDtypes) {
    for (const int32_t kv : kDtypes) {
      for (const int32_t o : kDtypes) {
        Case c;
        set_dtypes(&c, q, kv, o);
        c.n_q = {5, 5};
        c.n_k = {37, 37};
        cases.push_back(c);

        c.causal = 1;
        c.heads_q = 4;
        set_dims(&c, 40, 24);
        c.n_q = {33};
        c.n_k = {70};
        cases.push_back(c);

        c.n_q = {1};
        c.n_k = {150};
        set_dims(&c, 64, 64);
        cases.push_back(c);
      }
    }
  }
  return cases;
}

std::vector<Case> head_dim_cases() {
  std::vector<Case> cases;
  int32_t turn = 0;
  const auto add = [&](int32_t dim, int32_t dim_v) {
    for (const int32_t n_q : {1, 18}) {
      Case c;
      set_dims(&c, dim, dim_v);
      const int32_t dtype = kDtypes[turn++ % 3];
      set_dtypes(&c, turn % 4 == 0 ? FLASHATTN_DTYPE_F32 : dtype, dtype, dtype);
      c.n_q = {n_q};
      c.n_k = {45};
      c.causal = turn % 2;
      cases.push_back(c);
    }
  };
  for (const int32_t dim :
       {1,  2,  3,  7,   8,   15,  16,  17,  24,  31,  32,  33,  40,  48,  63,  64,  65,
        72, 80, 96, 100, 112, 127, 128, 129, 160, 192, 255, 256, 257, 320, 512, 575, 576}) {
    add(dim, dim);
  }
  for (const auto &[dim, dim_v] : {std::pair{192, 128},
                                   {576, 512},
                                   {64, 1},
                                   {1, 64},
                                   {128, 256},
                                   {96, 40},
                                   {320, 32},
                                   {8, 576},
                                   {100, 17},
                                   {64, 63},
                                   {40, 41}}) {
    add(dim, dim_v);
  }
  return cases;
}

std::vector<Case> head_count_cases() {
  std::vector<Case> cases;
  for (const auto &[q, kv] : {std::pair{1, 1},
                              {4, 4},
                              {8, 2},
                              {6, 3},
                              {9, 3},
                              {8, 1},
                              {16, 1},
                              {71, 1},
                              {32, 8},
                              {14, 2},
                              {40, 4}}) {
    for (const int32_t n_q : {1, 2, 5, 17}) {
      Case c;
      c.heads_q = q;
      c.heads_kv = kv;
      set_dtypes(&c, FLASHATTN_DTYPE_F32, FLASHATTN_DTYPE_F16, FLASHATTN_DTYPE_F32);
      set_dims(&c, 16, 24);
      c.n_q = {n_q, n_q};
      c.n_k = {41, 41};
      c.causal = n_q % 2;
      cases.push_back(c);
    }
  }
  return cases;
}

std::vector<Case> tile_edge_cases() {
  std::vector<Case> cases;
  int32_t turn = 0;
  for (const int32_t edge : {1, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512}) {
    for (const int32_t delta : {-1, 0, 1}) {
      for (const int32_t n_q : {1, 3, 16, 33}) {
        Case c;
        const int32_t dtype = kDtypes[turn++ % 3];
        set_dtypes(&c, dtype, dtype, dtype);
        set_dims(&c, 24, 16);
        c.heads_kv = 1 + turn % 2;
        c.n_q = {n_q};
        c.n_k = {edge + delta};
        c.causal = turn % 5 == 0;
        cases.push_back(c);
      }
      Case c;
      set_dims(&c, 16, 16);
      c.n_q = {edge + delta};
      c.n_k = {50};
      c.causal = turn % 2;
      cases.push_back(c);
    }
  }
  return cases;
}

}  // namespace flashattn::test
