// SPDX-License-Identifier: Apache-2.0
// MFMA against the layouts AMD publishes (amd_matrix_instruction_calculator, CDNA3): where element (i, k) of
// A, (k, j) of B and (i, j) of C and D live. Written the other way round from the interpreter: element to
// place.
#include <doctest/doctest.h>

#include <functional>

#include "tests/support/gcn/testing.h"

namespace flashattn::gcn {
namespace {

struct Shape {
  const char *mnemonic;
  int m;  // rows and columns
  int k;
  int bits;  // of an element of A and B
  uint32_t (*encode)(float);
};

uint32_t encode_bf16(float x) {
  return float_to_bf16(x);
}
uint32_t encode_f16(float x) {
  return float_to_half(x);
}

const std::vector<Shape> kShapes = {
    {"v_mfma_f32_32x32x8_bf16", 32, 8, 16, encode_bf16},
    {"v_mfma_f32_32x32x8_f16", 32, 8, 16, encode_f16},
    {"v_mfma_f32_16x16x16_bf16", 16, 16, 16, encode_bf16},
    {"v_mfma_f32_16x16x16_f16", 16, 16, 16, encode_f16},
    {"v_mfma_f32_32x32x2_f32", 32, 2, 32, as_bits},
    {"v_mfma_f32_16x16x4_f32", 16, 4, 32, as_bits},
};

struct Place {
  int lane;
  int element;  // of the lane's registers: 16-bit elements of A and B, registers of C and D
};

// A element (i, k), and B element (k, j) with i = j.
Place operand_place(const Shape &shape, int i, int k) {
  const int per_lane = shape.k * shape.m / kLanes;
  return {i + shape.m * (k / per_lane), k % per_lane};
}

Place result_place(const Shape &shape, int i, int j) {
  if (shape.m == 32) return {j + 32 * (i / 4 % 2), 4 * (i / 8) + i % 4};
  return {j + 16 * (i / 4), i % 4};
}

// Small integers, exact in every format and in every order of summing.
float a_of(int i, int k) {
  return static_cast<float>((3 * i + 5 * k) % 7 - 3);
}
float b_of(int k, int j) {
  return static_cast<float>((2 * k + 11 * j) % 5 - 1);
}
float c_of(int i, int j) {
  return static_cast<float>((i * 32 + j) % 13);
}

void put(const Shape &shape, const Place &place, float value, std::vector<Row> *rows) {
  const int per_register = 32 / shape.bits;
  uint32_t &bits =
      (*rows)[static_cast<size_t>(place.element / per_register)][static_cast<size_t>(place.lane)];
  bits |= shape.encode(value) << (place.element % per_register * shape.bits);
}

TEST_CASE("MFMA follows the published layouts") {
  std::vector<Snippet> snippets;
  for (const Shape &shape : kShapes) {
    // C is loaded from the scratch memory, D is stored over it, register r of lane l at 4 * (64 * r + l).
    const int results = shape.m * shape.m / kLanes;
    const bool wide = shape.bits == 16;
    std::string body;
    for (int r = 0; r < results; ++r) {
      body += "global_load_dword v" + std::to_string(32 + r) +
              ", v8, s[4:5] offset:" + std::to_string(256 * r % 4096) + "\n";
    }
    const std::string range = std::to_string(32) + ":" + std::to_string(31 + results);
    body += "s_waitcnt vmcnt(0)\n s_mov_b64 exec, 1\n" + std::string(shape.mnemonic) +
            " v[48:" + std::to_string(47 + results) + "], " + (wide ? "v[2:3], v[4:5]" : "v2, v4") + ", v[" +
            range + "]\n" + "s_mov_b64 exec, -1\n s_nop 15\n";
    for (int r = 0; r < results; ++r) {
      body += "global_store_dword v8, v" + std::to_string(48 + r) +
              ", s[4:5] offset:" + std::to_string(256 * r) + "\n";
    }
    snippets.push_back({shape.mnemonic, body});
  }
  const Snippets program(snippets);
  for (const Shape &shape : kShapes) {
    CAPTURE(std::string(shape.mnemonic));
    std::vector<Row> rows(4);
    for (Row &row : rows) row.fill(0);
    std::vector<Row> a(2);
    std::vector<Row> b(2);
    for (Row *row : {&a[0], &a[1], &b[0], &b[1]}) row->fill(0);
    for (int i = 0; i < shape.m; ++i) {
      for (int k = 0; k < shape.k; ++k) {
        put(shape, operand_place(shape, i, k), a_of(i, k), &a);
        put(shape, operand_place(shape, i, k), b_of(k, i), &b);
      }
    }
    std::vector<uint32_t> c(1024, 0);
    for (int i = 0; i < shape.m; ++i) {
      for (int j = 0; j < shape.m; ++j) {
        const Place place = result_place(shape, i, j);
        c[static_cast<size_t>(place.element * kLanes + place.lane)] = f32(c_of(i, j));
      }
    }
    const SnippetResult result = program.run(shape.mnemonic, {a[0], a[1], b[0], b[1]}, {}, {}, 1, c);
    for (int i = 0; i < shape.m; ++i) {
      for (int j = 0; j < shape.m; ++j) {
        float expected = c_of(i, j);
        for (int k = 0; k < shape.k; ++k) expected += a_of(i, k) * b_of(k, j);
        const Place place = result_place(shape, i, j);
        CAPTURE(i);
        CAPTURE(j);
        REQUIRE_EQ(as_float(result.memory[static_cast<size_t>(place.element * kLanes + place.lane)]),
                   expected);
      }
    }
  }
}

TEST_CASE("MFMA accumulates in accumulation registers too") {
  const Snippets program(std::vector<Snippet>{
      {"agpr",
       "v_accvgpr_write_b32 a0, 2.0\n v_accvgpr_write_b32 a1, 2.0\n v_accvgpr_write_b32 a2, 2.0\n"
       "v_accvgpr_write_b32 a3, 2.0\n v_accvgpr_write_b32 a4, v2\n v_accvgpr_write_b32 a5, v3\n"
       "v_mfma_f32_16x16x16_f16 a[0:3], a[4:5], v[4:5], a[0:3]\n s_nop 15\n v_accvgpr_read_b32 v10, a3"}});
  // All ones: 16 products and the 2 of C.
  const Row ones = lanes_of({0x3c003c00U});
  CHECK_EQ(program.run("agpr", {ones, ones, ones, ones}, {}).v[0][17], f32(18));
}

TEST_CASE("MFMA takes an inline constant for C") {
  const Snippets program(
      std::vector<Snippet>{{"zero", "v_mfma_f32_16x16x16_f16 v[10:13], v[2:3], v[4:5], 1.0\n s_nop 15"}});
  const SnippetResult r = program.run("zero", {}, {});
  CHECK_EQ(r.v[0][0], f32(1));
  CHECK_EQ(r.v[3][63], f32(1));
}

}  // namespace
}  // namespace flashattn::gcn
