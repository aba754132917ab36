// SPDX-License-Identifier: Apache-2.0
// MFMA: D = A B + C over the whole wave (CDNA3 ISA, chapter 7 "Matrix arithmetic instructions"). EXEC is
// ignored, as by the hardware. Layouts for one block of M x M with K terms, lanes in 64 / M groups of M:
//   A  lane l, element e:   row l % M, k = (K * M / 64) * (l / M) + e
//   B  lane l, element e:   column l % M, the same k
//   D  lane l, register r:  column l % M; 32x32: row 8 * (r / 4) + 4 * (l / 32) + r % 4;
//                           16x16: row 4 * (l / 16) + r
// Products are added in ascending k, each with one rounding. The hardware's own order and internal rounding
// are not published: compare results by tolerance.
#include <array>
#include <cmath>

#include "tests/support/gcn/lanes.h"
#include "tests/support/gcn/opcodes.h"

namespace flashattn::gcn {
namespace {

enum class Element { kBf16, kF16, kF32 };

template <Element kElement>
float element_of(Wave &wave, const Operand &operand, int e, int lane) {
  if (kElement == Element::kF32) return as_float(register_row(wave, operand, e)[lane]);
  const uint32_t bits = register_row(wave, operand, e / 2)[lane] >> (16 * (e % 2));
  return kElement == Element::kF16 ? half_to_float(bits) : bf16_to_float(bits);
}

template <int M>
int result_row(int r, int group) {
  return M == 32 ? 8 * (r / 4) + 4 * group + r % 4 : 4 * group + r;
}

template <int M, int K, Element kElement>
void multiply(Wave &wave, const Instruction &in) {
  constexpr int kPerLane = K * M / kLanes;
  constexpr int kResults = M * M / kLanes;
  alignas(64) std::array<std::array<float, K>, M> a;
  alignas(64) std::array<std::array<float, M>, K> b;
  alignas(64) std::array<std::array<float, M>, M> d;
  for (int e = 0; e < kPerLane; ++e) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int k = kPerLane * (lane / M) + e;
      a[lane % M][k] = element_of<kElement>(wave, in.operands[1], e, lane);
      b[k][lane % M] = element_of<kElement>(wave, in.operands[2], e, lane);
    }
  }
  for (int r = 0; r < kResults; ++r) {
    Row scratch;
    const Operand &operand = in.operands[3];
    const uint32_t *c = source(wave, operand, scratch, is_register_file(operand) ? r : 0);
    for (int lane = 0; lane < kLanes; ++lane) d[result_row<M>(r, lane / M)][lane % M] = as_float(c[lane]);
  }
  for (int row = 0; row < M; ++row) {
    for (int k = 0; k < K; ++k) {
      const float factor = a[row][k];
      for (int column = 0; column < M; ++column) {
        d[row][column] = std::fma(factor, b[k][column], d[row][column]);
      }
    }
  }
  for (int r = 0; r < kResults; ++r) {
    Row &to = register_row(wave, in.operands[0], r);
    for (int lane = 0; lane < kLanes; ++lane) to[lane] = as_bits(d[result_row<M>(r, lane / M)][lane % M]);
  }
}

}  // namespace

void add_matrix_opcodes(OpcodeTable &t) {
  t["v_mfma_f32_32x32x8_bf16"] = t["v_mfma_f32_32x32x8_bf16_1k"] = t["v_mfma_f32_32x32x8bf16_1k"] =
      multiply<32, 8, Element::kBf16>;
  t["v_mfma_f32_16x16x16_bf16"] = t["v_mfma_f32_16x16x16_bf16_1k"] = t["v_mfma_f32_16x16x16bf16_1k"] =
      multiply<16, 16, Element::kBf16>;
  t["v_mfma_f32_32x32x8_f16"] = t["v_mfma_f32_32x32x8f16"] = multiply<32, 8, Element::kF16>;
  t["v_mfma_f32_16x16x16_f16"] = t["v_mfma_f32_16x16x16f16"] = multiply<16, 16, Element::kF16>;
  t["v_mfma_f32_32x32x2_f32"] = t["v_mfma_f32_32x32x2f32"] = multiply<32, 2, Element::kF32>;
  t["v_mfma_f32_16x16x4_f32"] = t["v_mfma_f32_16x16x4f32"] = multiply<16, 4, Element::kF32>;
  // gfx950.
  t["v_mfma_f32_32x32x16_bf16"] = multiply<32, 16, Element::kBf16>;
  t["v_mfma_f32_16x16x32_bf16"] = multiply<16, 32, Element::kBf16>;
  t["v_mfma_f32_32x32x16_f16"] = multiply<32, 16, Element::kF16>;
  t["v_mfma_f32_16x16x32_f16"] = multiply<16, 32, Element::kF16>;
}

}  // namespace flashattn::gcn
