// SPDX-License-Identifier: Apache-2.0
#include "src/combine_check.h"

#include "src/dtype.h"
#include "src/extent.h"
#include "src/field_check.h"
#include "src/problem.h"
#include "src/structs.h"
#include "src/tensor_check.h"

namespace flashattn {
namespace {

constexpr int64_t kF32Size = 4;

Status check_sizes(const flashattn_combine_args_t &args) {
  if (Status status = check_reserved_words(args.reserved); status != kOk) return status;
  if (args.num_parts < 1) return invalid_field("num_parts", args.num_parts, "it must be at least 1");
  if (args.batch < 0) return invalid_field("batch", args.batch, "it must not be negative");
  if (args.seqlen_q < 0) return invalid_field("seqlen_q", args.seqlen_q, "it must not be negative");
  if (args.num_heads < 1) return invalid_field("num_heads", args.num_heads, "it must be at least 1");
  if (args.head_dim_v < 1) return invalid_field("head_dim_v", args.head_dim_v, "it must be at least 1");
  constexpr const char *kDtypes = "it must be FLASHATTN_DTYPE_F32 (1), _F16 (2) or _BF16 (3)";
  if (!is_float_dtype(args.dtype_partial)) return invalid_field("dtype_partial", args.dtype_partial, kDtypes);
  if (!is_float_dtype(args.dtype_o)) return invalid_field("dtype_o", args.dtype_o, kDtypes);
  int64_t elements = 0;
  if (!product_within({args.batch, args.seqlen_q, args.num_heads, args.head_dim_v}, kMaxElements,
                      &elements)) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
                "batch * seqlen_q * num_heads * head_dim_v is %d * %d * %d * %d; it must not exceed 2^52",
                args.batch, args.seqlen_q, args.num_heads, args.head_dim_v);
  }
  return kOk;
}

Status check_tensor(const char *name, const flashattn_tensor_t &tensor, const flashattn_combine_args_t &args,
                    int64_t element_size, int64_t row, Access access) {
  const Dimension dimensions[] = {{"stride_batch", args.batch, tensor.stride_batch},
                                  {"stride_seq", args.seqlen_q, tensor.stride_seq},
                                  {"stride_head", args.num_heads, tensor.stride_head}};
  return check_array({name, tensor.data, element_size, row, dimensions, 3, access});
}

Status check_parts(const char *name, const char *stride_name, const flashattn_tensor_t &tensor,
                   int64_t stride_part, const flashattn_combine_args_t &args, int64_t element_size,
                   int64_t row) {
  if (stride_part < 0) return invalid_field(stride_name, stride_part, "no stride may be negative");
  const Dimension dimensions[] = {{"stride_batch", args.batch, tensor.stride_batch},
                                  {"stride_seq", args.seqlen_q, tensor.stride_seq},
                                  {"stride_head", args.num_heads, tensor.stride_head},
                                  {"stride_part", args.num_parts, stride_part}};
  return check_array({name, tensor.data, element_size, row, dimensions, 4, Access::kInput});
}

}  // namespace

Status check_combine_args(const flashattn_combine_args_t *source, flashattn_combine_args_t *args) {
  if (Status status = read_struct("args", source, args); status != kOk) return status;
  if (Status status = check_sizes(*args); status != kOk) return status;
  if (Status status =
          check_parts("o_partial", "o_partial_stride_part", args->o_partial, args->o_partial_stride_part,
                      *args, dtype_size(args->dtype_partial), args->head_dim_v);
      status != kOk) {
    return status;
  }
  if (Status status = check_parts("lse_partial", "lse_partial_stride_part", args->lse_partial,
                                  args->lse_partial_stride_part, *args, kF32Size, 1);
      status != kOk) {
    return status;
  }
  if (Status status =
          check_tensor("o", args->o, *args, dtype_size(args->dtype_o), args->head_dim_v, Access::kOutput);
      status != kOk) {
    return status;
  }
  if (args->o.data != nullptr && args->o.data == args->o_partial.data) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
                "o.data is %p; it must not overlap o_partial.data, which is the same", args->o.data);
  }
  if (args->lse.data == nullptr) return kOk;
  if (args->lse.data == args->o.data) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
                "lse.data is %p; it must not overlap o.data, which is the same", args->lse.data);
  }
  if (args->lse.data == args->lse_partial.data) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
                "lse.data is %p; it must not overlap lse_partial.data, which is the same", args->lse.data);
  }
  return check_tensor("lse", args->lse, *args, kF32Size, 1, Access::kOutput);
}

}  // namespace flashattn
