// SPDX-License-Identifier: Apache-2.0
// Warpgroup matrix multiply-accumulate, D += A B with f32 accumulators in registers
// (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions: wgmma").
//
// One instruction is m64 nN k16. Thread t of the warpgroup (warp w = t / 32, lane l = t % 32) holds, for
// column group j = 0 .. N/8 - 1, d[4j], d[4j+1] = row 16w + l/4, columns 8j + 2(l%4) + {0, 1}, and d[4j+2],
// d[4j+3] = the same columns of row 16w + l/4 + 8. A in registers (k16) has the same layout over two column
// groups, packed in pairs.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace flashattn::ptx {

// Matrix descriptor for 128-byte swizzle (PTX ISA, "Matrix Descriptor Format"): address, leading and stride
// byte offsets in units of 16 bytes at bits 0, 16 and 32; swizzle mode 1 at bit 62. Tiles start on 1024
// bytes, so the base offset is zero.
//  K-major operand (Q, K): rows of 64 elements = 128 bytes, 8-row groups `stride` bytes apart; `leading` is
//  unused. MN-major operand (V):   64 columns = 128 bytes a row, `stride` bytes between groups of 8 rows (k),
//  `leading` bytes
//                          between blocks of 64 columns.
// The upper word is a constant of the layout. The lower one holds the address; a tile `bytes` further on is
// bytes / 16 more there, which never carries: shared addresses are below 2^18.
template <uint32_t kLeading, uint32_t kStride>
struct Matrix {
  static_assert(kLeading % 16 == 0 && kLeading < 1 << 18 && kStride % 16 == 0 && kStride < 1 << 18);
  uint32_t low;

  __device__ explicit Matrix(uint32_t smem) : low((smem >> 4) + (kLeading >> 4 << 16)) {}
  __device__ Matrix at(uint32_t bytes) const {
    Matrix moved = *this;
    moved.low += bytes >> 4;
    return moved;
  }
  __device__ uint64_t descriptor() const {
    constexpr uint32_t kHigh = kStride >> 4 | 1u << 30;
    uint64_t d;
    asm("mov.b64 %0, {%1, %2};" : "=l"(d) : "r"(low), "r"(kHigh));
    return d;
  }
};

// Orders register accesses of this thread before the next wgmma; needed before the first one and whenever the
// accumulators or A registers were touched.
__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving reads or writes of registers that an asynchronous wgmma owns across this
// point.
template <int kCount>
__device__ inline void wgmma_pin(float (&r)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(r[i])::"memory");
}
template <int kCount>
__device__ inline void wgmma_pin(uint32_t (&r)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(r[i])::"memory");
}

// D is an array of at least N / 2 accumulators, indexed by constants only once everything is inlined.
// ss: A and B from shared memory, both K-major. ss_first: the same, D = A B. rs: A from registers, B
// MN-major.
template <typename Element, int kN>
struct Wgmma;

// Inline assembly wants every accumulator named, hence text macros here and nowhere else. Each shape lists
// its registers in blocks of eight and the operand numbers that follow them.
// clang-format off
#define FA_R0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define FA_R1 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define FA_R2 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define FA_R3 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define FA_R4 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define FA_R5 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define FA_R6 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define FA_R7 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define FA_R8 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define FA_R9 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define FA_R10 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define FA_R11 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define FA_R12 ",%96,%97,%98,%99,%100,%101,%102,%103"
#define FA_R13 ",%104,%105,%106,%107,%108,%109,%110,%111"
#define FA_R14 ",%112,%113,%114,%115,%116,%117,%118,%119"
#define FA_R15 ",%120,%121,%122,%123,%124,%125,%126,%127"
#define FA_T4 FA_R0 FA_R1 FA_R2 FA_R3
#define FA_T5 FA_T4 FA_R4
#define FA_T6 FA_T5 FA_R5
#define FA_T8 FA_T6 FA_R6 FA_R7
#define FA_T10 FA_T8 FA_R8 FA_R9
#define FA_T11 FA_T10 FA_R10
#define FA_T12 FA_T11 FA_R11
#define FA_T16 FA_T12 FA_R12 FA_R13 FA_R14 FA_R15
#define FA_A8(i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define FA_W8(i) \
  "=f"(d[i]), "=f"(d[i + 1]), "=f"(d[i + 2]), "=f"(d[i + 3]), "=f"(d[i + 4]), "=f"(d[i + 5]), "=f"(d[i + 6]), "=f"(d[i + 7])
#define FA_D4 FA_A8(0), FA_A8(8), FA_A8(16), FA_A8(24)
#define FA_D5 FA_D4, FA_A8(32)
#define FA_D6 FA_D5, FA_A8(40)
#define FA_D8 FA_D6, FA_A8(48), FA_A8(56)
#define FA_D10 FA_D8, FA_A8(64), FA_A8(72)
#define FA_D11 FA_D10, FA_A8(80)
#define FA_D12 FA_D11, FA_A8(88)
#define FA_D16 FA_D12, FA_A8(96), FA_A8(104), FA_A8(112), FA_A8(120)
#define FA_N4 FA_W8(0), FA_W8(8), FA_W8(16), FA_W8(24)
#define FA_N5 FA_N4, FA_W8(32)
#define FA_N6 FA_N5, FA_W8(40)
#define FA_N8 FA_N6, FA_W8(48), FA_W8(56)
#define FA_N10 FA_N8, FA_W8(64), FA_W8(72)
#define FA_N11 FA_N10, FA_W8(80)
#define FA_N12 FA_N11, FA_W8(88)
#define FA_N16 FA_N12, FA_W8(96), FA_W8(104), FA_W8(112), FA_W8(120)

// BLOCKS = N / 16 blocks of eight accumulators; I0.. = the operand numbers after them.
#define FA_WGMMA_TYPE(ELEMENT, TYPE, N, BLOCKS, I0, I1, I2, I3, I4)                                               \
  template <>                                                                                                    \
  struct Wgmma<ELEMENT, N> {                                                                                     \
    __device__ static inline void ss_first(float *d, uint64_t a, uint64_t b) {                                    \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"                                                    \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" FA_T##BLOCKS             \
                   "}, %" #I0 ", %" #I1 ", p, 1, 1, 0, 0;\n}\n"                                                  \
                   : FA_N##BLOCKS                                                                                \
                   : "l"(a), "l"(b));                                                                            \
    }                                                                                                            \
    __device__ static inline void ss(float *d, uint64_t a, uint64_t b) {                                         \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" FA_T##BLOCKS             \
                   "}, %" #I0 ", %" #I1 ", 1, 1, 1, 0, 0;"                                                       \
                   : FA_D##BLOCKS                                                                                \
                   : "l"(a), "l"(b));                                                                            \
    }                                                                                                            \
    __device__ static inline void rs(float *d, const uint32_t *a, uint64_t b) {                                  \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" FA_T##BLOCKS             \
                   "}, {%" #I0 ", %" #I1 ", %" #I2 ", %" #I3 "}, %" #I4 ", 1, 1, 1, 1;"                          \
                   : FA_D##BLOCKS                                                                                \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                        \
    }                                                                                                            \
  };
#define FA_WGMMA(N, BLOCKS, ...)                                 \
  FA_WGMMA_TYPE(__nv_bfloat16, "bf16", N, BLOCKS, __VA_ARGS__)   \
  FA_WGMMA_TYPE(__half, "f16", N, BLOCKS, __VA_ARGS__)

FA_WGMMA(64, 4, 32, 33, 34, 35, 36)
FA_WGMMA(80, 5, 40, 41, 42, 43, 44)
FA_WGMMA(96, 6, 48, 49, 50, 51, 52)
FA_WGMMA(128, 8, 64, 65, 66, 67, 68)
FA_WGMMA(160, 10, 80, 81, 82, 83, 84)
FA_WGMMA(176, 11, 88, 89, 90, 91, 92)
FA_WGMMA(192, 12, 96, 97, 98, 99, 100)
FA_WGMMA(256, 16, 128, 129, 130, 131, 132)

#undef FA_WGMMA
#undef FA_WGMMA_TYPE
#undef FA_R0
#undef FA_R1
#undef FA_R2
#undef FA_R3
#undef FA_R4
#undef FA_R5
#undef FA_R6
#undef FA_R7
#undef FA_R8
#undef FA_R9
#undef FA_R10
#undef FA_R11
#undef FA_R12
#undef FA_R13
#undef FA_R14
#undef FA_R15
#undef FA_T4
#undef FA_T5
#undef FA_T6
#undef FA_T8
#undef FA_T10
#undef FA_T11
#undef FA_T12
#undef FA_T16
#undef FA_A8
#undef FA_W8
#undef FA_N4
#undef FA_N5
#undef FA_N6
#undef FA_N8
#undef FA_N10
#undef FA_N11
#undef FA_N12
#undef FA_N16
#undef FA_D4
#undef FA_D5
#undef FA_D6
#undef FA_D8
#undef FA_D10
#undef FA_D11
#undef FA_D12
#undef FA_D16
// clang-format on

}  // namespace flashattn::ptx
