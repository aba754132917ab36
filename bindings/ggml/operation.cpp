// SPDX-License-Identifier: Apache-2.0
#include "bindings/ggml/operation.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace flashattn::ggml {
namespace {

constexpr int64_t kWidestHead = 576;  // of every CPU kernel

// 0 for types that are left to the engine.
int32_t dtype_of(int32_t type) {
  switch (type) {
    case kTypeF32:
      return FLASHATTN_DTYPE_F32;
    case kTypeF16:
      return FLASHATTN_DTYPE_F16;
    case kTypeBf16:
      return FLASHATTN_DTYPE_BF16;
    default:
      return 0;
  }
}

bool refuse(std::string *reason, const std::string &text) {
  *reason = text;
  return false;
}

// ggml orders [dim, row, head, batch]; row is the query or key, except in the result, where it is the head.
bool read_rows(const char *name, const Tensor &tensor, size_t size, int row, int head,
               flashattn_tensor_t *out, std::string *reason) {
  if (tensor.nb[0] != size)
    return refuse(reason, std::string(name) + " is not contiguous along the head dimension");
  for (int dim = 1; dim < 4; ++dim) {
    if (tensor.nb[dim] % size != 0)
      return refuse(reason, std::string(name) + " has a stride between two elements");
  }
  for (const int64_t extent : tensor.ne) {
    if (extent > std::numeric_limits<int32_t>::max())
      return refuse(reason, std::string(name) + " is too large");
  }
  out->data = tensor.data;
  out->stride_batch = static_cast<int64_t>(tensor.nb[3] / size);
  out->stride_seq = static_cast<int64_t>(tensor.nb[row] / size);
  out->stride_head = static_cast<int64_t>(tensor.nb[head] / size);
  return true;
}

bool read_mask(const Tensor *mask, Operation *operation, std::string *reason) {
  if (mask == nullptr) {
    if (operation->max_bias > 0) return refuse(reason, "ALiBi without a mask");
    return true;
  }
  if (mask->type != kTypeF16) return refuse(reason, "mask is not f16");
  constexpr size_t kSize = 2;
  if (mask->nb[0] != kSize || mask->ne[0] < operation->num_keys || mask->ne[1] < operation->num_queries ||
      (mask->ne[2] != 1 && mask->ne[2] != operation->num_heads_q) || mask->ne[3] < 1 ||
      operation->batch % mask->ne[3] != 0) {
    return refuse(reason, "mask has a shape that does not repeat over the scores");
  }
  operation->mask_per_head = mask->ne[2] > 1;
  operation->mask_batch = static_cast<int32_t>(mask->ne[3]);
  operation->mask = {mask->data, static_cast<int64_t>(mask->nb[3] / kSize),
                     operation->mask_per_head ? static_cast<int64_t>(mask->nb[2] / kSize) : 0,
                     static_cast<int64_t>(mask->nb[1] / kSize), 1};
  return true;
}

}  // namespace

bool read_operation(const Tensor &op, Operation *operation, std::string *reason) {
  *operation = {};
  const Tensor *q = op.src[0];
  const Tensor *k = op.src[1];
  const Tensor *v = op.src[2];
  const Tensor *sinks = op.src[4];
  if (q == nullptr || k == nullptr || v == nullptr) return refuse(reason, "an operand is missing");
  if (q->type != kTypeF32 || op.type != kTypeF32) return refuse(reason, "q or the result is not f32");
  operation->dtype_kv = dtype_of(k->type);
  if (operation->dtype_kv == 0) return refuse(reason, "the KV cache is not f32, f16 or bf16");
  if (v->type != k->type) return refuse(reason, "k and v differ in type");
  const size_t size_kv = element_size(operation->dtype_kv);
  if (!read_rows("q", *q, sizeof(float), 1, 2, &operation->q, reason) ||
      !read_rows("k", *k, size_kv, 1, 2, &operation->k, reason) ||
      !read_rows("v", *v, size_kv, 1, 2, &operation->v, reason) ||
      !read_rows("the result", op, sizeof(float), 2, 1, &operation->o, reason)) {
    return false;
  }
  if (q->ne[0] != k->ne[0] || v->ne[1] != k->ne[1] || v->ne[2] != k->ne[2] || k->ne[2] < 1 ||
      q->ne[2] % k->ne[2] != 0 || k->ne[3] != q->ne[3] || v->ne[3] != q->ne[3]) {
    return refuse(reason, "q, k and v have shapes that do not fit each other");
  }
  if (q->ne[0] > kWidestHead || v->ne[0] > kWidestHead) return refuse(reason, "a head is wider than 576");
  if (sinks != nullptr &&
      (sinks->type != kTypeF32 || sinks->nb[0] != sizeof(float) || sinks->ne[0] != q->ne[2])) {
    return refuse(reason, "sinks are not one f32 for each head");
  }
  operation->batch = static_cast<int32_t>(q->ne[3]);
  operation->num_queries = static_cast<int32_t>(q->ne[1]);
  operation->num_keys = static_cast<int32_t>(k->ne[1]);
  operation->num_heads_q = static_cast<int32_t>(q->ne[2]);
  operation->num_heads_kv = static_cast<int32_t>(k->ne[2]);
  operation->head_dim = static_cast<int32_t>(q->ne[0]);
  operation->head_dim_v = static_cast<int32_t>(v->ne[0]);
  operation->sinks = sinks == nullptr ? nullptr : static_cast<const float *>(sinks->data);
  std::memcpy(&operation->scale, &op.op_params[0], sizeof(float));
  std::memcpy(&operation->max_bias, &op.op_params[1], sizeof(float));
  std::memcpy(&operation->softcap, &op.op_params[2], sizeof(float));
  // flashattn.h takes a scale of 0 as the default one.
  if (operation->scale == 0) return refuse(reason, "the scale is 0");
  return read_mask(op.src[3], operation, reason);
}

float alibi_slope(float max_bias, int32_t num_heads, int32_t head) {
  const float power_of_two = std::exp2(std::floor(std::log2(static_cast<float>(num_heads))));
  const auto head_number = static_cast<float>(head);
  if (head_number < power_of_two) return std::exp2(-max_bias / power_of_two * (head_number + 1));
  return std::exp2(-max_bias / 2 / power_of_two * (2 * (head_number - power_of_two) + 1));
}

size_t element_size(int32_t dtype) {
  return dtype == FLASHATTN_DTYPE_F32 ? 4 : 2;
}

}  // namespace flashattn::ggml
