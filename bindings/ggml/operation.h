// SPDX-License-Identifier: Apache-2.0
// One GGML_OP_FLASH_ATTN_EXT, checked and in the terms of flashattn.h.
#pragma once

#include <cstdint>
#include <string>

#include "bindings/ggml/abi.h"
#include "flashattn.h"

namespace flashattn::ggml {

// Strides in elements. Rows of q and o: [batch, num_queries, num_heads_q]; of k and v: [batch, num_keys, num_heads_kv].
// The pointers are those of the tensors and therefore null while the engine only asks whether an op is supported.
struct Operation {
  int32_t dtype_kv;  // FLASHATTN_DTYPE_*; q and o are f32
  int32_t batch;
  int32_t num_queries;
  int32_t num_keys;
  int32_t num_heads_q;
  int32_t num_heads_kv;
  int32_t head_dim;
  int32_t head_dim_v;
  flashattn_tensor_t q;
  flashattn_tensor_t k;
  flashattn_tensor_t v;
  flashattn_tensor_t o;
  // f16 [mask_batch, 1 or num_heads_q, num_queries, num_keys], repeated over the batch. mask_batch 0: none.
  flashattn_bias_t mask;
  int32_t mask_batch;
  bool mask_per_head;
  const float *sinks;  // [num_heads_q] or null
  float scale;
  float softcap;   // 0: none
  float max_bias;  // > 0: the mask is multiplied by each head's ALiBi slope
};

// False when this plug-in leaves the op to the engine; reason then says why.
bool read_operation(const Tensor &op, Operation *operation, std::string *reason);

// The slope of a head, 0 <= head < num_heads (Press et al. 2022, as ggml generalises it to any number of heads).
float alibi_slope(float max_bias, int32_t num_heads, int32_t head);

// Size of an element of a FLASHATTN_DTYPE_* that read_operation gives, in bytes.
size_t element_size(int32_t dtype);

}  // namespace flashattn::ggml
