// SPDX-License-Identifier: Apache-2.0
// Turns a function of one lane into an instruction over 64 lanes. The functions are lambdas without captures;
// each gets its own loop, which the compiler inlines and vectorises.
#pragma once

#include "tests/support/gcn/lanes.h"

namespace flashattn::gcn {

// d = f(a), f32 to f32.
template <typename F>
Execute float_unary(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &instruction) {
    VectorOperation op(wave, instruction);
    const uint32_t *a = op.floating(1, 0);
    uint32_t *d = op.result();
    for (int lane = 0; lane < kLanes; ++lane) d[lane] = as_bits(f(as_float(a[lane])));
    op.write_float();
  };
}

// d = f(a, b), f32.
template <typename F>
Execute float_binary(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &instruction) {
    VectorOperation op(wave, instruction);
    const uint32_t *a = op.floating(1, 0);
    const uint32_t *b = op.floating(2, 1);
    uint32_t *d = op.result();
    for (int lane = 0; lane < kLanes; ++lane) d[lane] = as_bits(f(as_float(a[lane]), as_float(b[lane])));
    op.write_float();
  };
}

// d = f(a, b, c), f32.
template <typename F>
Execute float_ternary(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &instruction) {
    VectorOperation op(wave, instruction);
    const uint32_t *a = op.floating(1, 0);
    const uint32_t *b = op.floating(2, 1);
    const uint32_t *c = op.floating(3, 2);
    uint32_t *d = op.result();
    for (int lane = 0; lane < kLanes; ++lane) {
      d[lane] = as_bits(f(as_float(a[lane]), as_float(b[lane]), as_float(c[lane])));
    }
    op.write_float();
  };
}

// d = f(a) with a an f32 and d bits: conversions.
template <typename F>
Execute from_float(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &instruction) {
    VectorOperation op(wave, instruction);
    const uint32_t *a = op.floating(1, 0);
    uint32_t *d = op.result();
    for (int lane = 0; lane < kLanes; ++lane) d[lane] = f(as_float(a[lane]));
    op.write();
  };
}

// d = f(a, b) with a and b f32 and d bits: packing conversions.
template <typename F>
Execute from_floats(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &instruction) {
    VectorOperation op(wave, instruction);
    const uint32_t *a = op.floating(1, 0);
    const uint32_t *b = op.floating(2, 1);
    uint32_t *d = op.result();
    for (int lane = 0; lane < kLanes; ++lane) d[lane] = f(as_float(a[lane]), as_float(b[lane]));
    op.write();
  };
}

// d = f(a), bits.
template <typename F>
Execute integer_unary(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &instruction) {
    VectorOperation op(wave, instruction);
    const uint32_t *a = op.integer(1, 0);
    uint32_t *d = op.result();
    for (int lane = 0; lane < kLanes; ++lane) d[lane] = f(a[lane]);
    op.write();
  };
}

// d = f(a, b), bits.
template <typename F>
Execute integer_binary(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &instruction) {
    VectorOperation op(wave, instruction);
    const uint32_t *a = op.integer(1, 0);
    const uint32_t *b = op.integer(2, 1);
    uint32_t *d = op.result();
    for (int lane = 0; lane < kLanes; ++lane) d[lane] = f(a[lane], b[lane]);
    op.write();
  };
}

// d = f(a, b, c), bits.
template <typename F>
Execute integer_ternary(F function) {
  static const F f = function;
  return [](Wave &wave, const Instruction &instruction) {
    VectorOperation op(wave, instruction);
    const uint32_t *a = op.integer(1, 0);
    const uint32_t *b = op.integer(2, 1);
    const uint32_t *c = op.integer(3, 2);
    uint32_t *d = op.result();
    for (int lane = 0; lane < kLanes; ++lane) d[lane] = f(a[lane], b[lane], c[lane]);
    op.write();
  };
}

}  // namespace flashattn::gcn
