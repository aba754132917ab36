// SPDX-License-Identifier: Apache-2.0
#include "bindings/ggml/operation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

namespace flashattn::ggml {
namespace {

// ggml's order: [dim, row, head, batch], contiguous unless a test changes that.
Tensor make_tensor(int32_t type, size_t size, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
  Tensor tensor = {};
  tensor.type = type;
  const int64_t extents[] = {ne0, ne1, ne2, ne3};
  for (int i = 0; i < 4; ++i) {
    tensor.ne[i] = extents[i];
    tensor.nb[i] = size;
    size *= extents[i];
  }
  return tensor;
}

struct Op {
  Tensor q = make_tensor(kTypeF32, 4, 64, 10, 9, 2);
  Tensor k = make_tensor(kTypeF16, 2, 64, 256, 3, 2);
  Tensor v = make_tensor(kTypeF16, 2, 80, 256, 3, 2);
  Tensor mask = make_tensor(kTypeF16, 2, 256, 64, 1, 2);
  Tensor sinks = make_tensor(kTypeF32, 4, 9, 1, 1, 1);
  Tensor out = make_tensor(kTypeF32, 4, 80, 9, 10, 2);

  Op() {
    Tensor *sources[] = {&q, &k, &v, &mask, &sinks};
    std::memcpy(out.src, sources, sizeof(sources));
    set(0.125F, 0, 0);
  }
  Op(const Op &) = delete;
  Op &operator=(const Op &) = delete;

  void set(float scale, float max_bias, float softcap) {
    const float values[] = {scale, max_bias, softcap};
    std::memcpy(out.op_params, values, sizeof(values));
  }
};

TEST_CASE("an op is read in elements, with the result's heads before its rows") {
  Op op;
  op.set(0.5F, 8, 30);
  Operation operation;
  std::string reason;
  REQUIRE(read_operation(op.out, &operation, &reason));
  CHECK(operation.dtype_kv == FLASHATTN_DTYPE_F16);
  CHECK(operation.batch == 2);
  CHECK(operation.num_queries == 10);
  CHECK(operation.num_keys == 256);
  CHECK(operation.num_heads_q == 9);
  CHECK(operation.num_heads_kv == 3);
  CHECK(operation.head_dim == 64);
  CHECK(operation.head_dim_v == 80);
  CHECK(operation.q.stride_seq == 64);
  CHECK(operation.q.stride_head == 640);
  CHECK(operation.v.stride_head == 80 * 256);
  CHECK(operation.o.stride_head == 80);
  CHECK(operation.o.stride_seq == 720);
  CHECK(operation.mask.stride_q == 256);
  CHECK(operation.mask.stride_head == 0);
  CHECK(operation.mask_batch == 2);
  CHECK(operation.scale == 0.5F);
  CHECK(operation.max_bias == 8);
  CHECK(operation.softcap == 30);
}

// Why an op is declined that is as Op but for what change does to it; "" when it is served.
template <typename Change>
std::string refusal(Change change) {
  Op op;
  change(&op);
  Operation operation;
  std::string reason;
  return read_operation(op.out, &operation, &reason) ? "" : reason;
}

TEST_CASE("what is not served is declined with its reason") {
  constexpr int32_t kTypeQ8 = 8;
  CHECK(refusal([](Op *) {}).empty());
  CHECK(refusal([](Op *op) { op->k.type = op->v.type = kTypeQ8; }) == "the KV cache is not f32, f16 or bf16");
  CHECK(refusal([](Op *op) { op->v.type = kTypeF32; }) == "k and v differ in type");
  CHECK(refusal([](Op *op) { op->q.type = kTypeF16; }) == "q or the result is not f32");
  CHECK(refusal([](Op *op) { op->k.nb[0] = 4; }) == "k is not contiguous along the head dimension");
  CHECK(refusal([](Op *op) { op->k.nb[1] = 129; }) == "k has a stride between two elements");
  CHECK(refusal([](Op *op) { op->q.ne[2] = 8; }) == "q, k and v have shapes that do not fit each other");
  CHECK(refusal([](Op *op) { op->q.ne[0] = op->k.ne[0] = 640; }) == "a head is wider than 576");
  CHECK(refusal([](Op *op) { op->mask.type = kTypeF32; }) == "mask is not f16");
  CHECK(refusal([](Op *op) { op->mask.ne[2] = 3; }) ==
        "mask has a shape that does not repeat over the scores");
  CHECK(refusal([](Op *op) { op->sinks.ne[0] = 3; }) == "sinks are not one f32 for each head");
  CHECK(refusal([](Op *op) { op->set(0, 0, 0); }) == "the scale is 0");
  CHECK(refusal([](Op *op) {
          op->set(1, 8, 0);
          op->out.src[3] = nullptr;
        }) == "ALiBi without a mask");
}

TEST_CASE("ALiBi slopes are those of the paper for powers of two and interleave the next power's otherwise") {
  for (int32_t head = 0; head < 8; ++head)
    CHECK(alibi_slope(8, 8, head) == doctest::Approx(std::exp2(-1.0 - head)));
  CHECK(alibi_slope(8, 12, 7) == doctest::Approx(std::exp2(-8.0)));
  CHECK(alibi_slope(8, 12, 8) == doctest::Approx(std::exp2(-0.5)));
  CHECK(alibi_slope(8, 12, 9) == doctest::Approx(std::exp2(-1.5)));
}

}  // namespace
}  // namespace flashattn::ggml
