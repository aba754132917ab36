// SPDX-License-Identifier: Apache-2.0
#include "src/problem.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "src/dtype.h"
#include "src/extent.h"
#include "src/field_check.h"
#include "src/structs.h"

namespace flashattn {
namespace {

constexpr uint64_t kKnownFeatures = FLASHATTN_FEATURE_WINDOW | FLASHATTN_FEATURE_ALIBI |
                                    FLASHATTN_FEATURE_SINKS | FLASHATTN_FEATURE_SEQUSED_Q |
                                    FLASHATTN_FEATURE_SEQUSED_KV | FLASHATTN_FEATURE_DIAG_OFFSETS;
constexpr uint64_t kKnownFlags =
    FLASHATTN_FLAG_BATCH_INVARIANT | FLASHATTN_FLAG_REQUIRE_FAST | FLASHATTN_FLAG_CU_SEQLENS_INT64;
constexpr int32_t kMaxSplits = 256;

bool is_ragged(int32_t layout) {
  return layout == FLASHATTN_LAYOUT_RAGGED;
}
bool is_paged(int32_t layout) {
  return layout == FLASHATTN_LAYOUT_PAGED || layout == FLASHATTN_LAYOUT_PAGED_CSR;
}

Status check_reserved(const flashattn_problem_t &problem) {
  if (problem.reserved0 != 0) return invalid_field("reserved0", problem.reserved0, "it must be 0");
  return check_reserved_words(problem.reserved);
}

Status check_operand_dtype(const char *field, int32_t dtype) {
  if (is_float_dtype(dtype)) return kOk;
  if (dtype == FLASHATTN_DTYPE_FP8_E4M3 || dtype == FLASHATTN_DTYPE_I8) {
    return fail(FLASHATTN_STATUS_UNSUPPORTED, "%s is %d; no kernel takes 8-bit Q, K or V yet", field, dtype);
  }
  return invalid_field(field, dtype, "it must be FLASHATTN_DTYPE_F32 (1), _F16 (2) or _BF16 (3)");
}

Status normalise_dtypes(flashattn_problem_t *problem) {
  if (problem->op != FLASHATTN_OP_FORWARD) {
    return fail(FLASHATTN_STATUS_UNSUPPORTED, "op is %d; this version has FLASHATTN_OP_FORWARD (0) only",
                problem->op);
  }
  if (Status status = check_operand_dtype("dtype_q", problem->dtype_q); status != kOk) return status;
  if (Status status = check_operand_dtype("dtype_kv", problem->dtype_kv); status != kOk) return status;
  if (problem->dtype_o == 0) problem->dtype_o = problem->dtype_q;
  if (!is_float_dtype(problem->dtype_o)) {
    return invalid_field("dtype_o", problem->dtype_o,
                         "it must be 0 (dtype_q), FLASHATTN_DTYPE_F32 (1), _F16 (2) or _BF16 (3)");
  }
  if (problem->dtype_bias != 0 && !is_float_dtype(problem->dtype_bias) &&
      problem->dtype_bias != FLASHATTN_DTYPE_U8) {
    return invalid_field("dtype_bias", problem->dtype_bias,
                         "it must be 0 (no bias), FLASHATTN_DTYPE_F32 (1), _F16 (2), _BF16 (3) or _U8 (6)");
  }
  if (problem->precision_f32 < FLASHATTN_PRECISION_IEEE ||
      problem->precision_f32 > FLASHATTN_PRECISION_TF32X3) {
    return invalid_field("precision_f32", problem->precision_f32,
                         "it must be FLASHATTN_PRECISION_IEEE (0), _TF32 (1) or _TF32X3 (2)");
  }
  return kOk;
}

Status normalise_heads(flashattn_problem_t *problem) {
  if (problem->num_heads_q < 1)
    return invalid_field("num_heads_q", problem->num_heads_q, "it must be at least 1");
  if (problem->num_heads_kv < 1)
    return invalid_field("num_heads_kv", problem->num_heads_kv, "it must be at least 1");
  if (problem->num_heads_q % problem->num_heads_kv != 0) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
                "num_heads_kv is %d; it must divide num_heads_q, which is %d", problem->num_heads_kv,
                problem->num_heads_q);
  }
  if (problem->head_dim < 1) return invalid_field("head_dim", problem->head_dim, "it must be at least 1");
  if (problem->head_dim_v == 0) problem->head_dim_v = problem->head_dim;
  if (problem->head_dim_v < 1) {
    return invalid_field("head_dim_v", problem->head_dim_v, "it must be at least 1, or 0 for head_dim");
  }
  return kOk;
}

Status check_layouts(const flashattn_problem_t &problem) {
  if (problem.layout_q != FLASHATTN_LAYOUT_DENSE && !is_ragged(problem.layout_q)) {
    return invalid_field("layout_q", problem.layout_q,
                         "it must be FLASHATTN_LAYOUT_DENSE (0) or _RAGGED (1)");
  }
  if (problem.layout_kv < FLASHATTN_LAYOUT_DENSE || problem.layout_kv > FLASHATTN_LAYOUT_PAGED_CSR) {
    return invalid_field("layout_kv", problem.layout_kv,
                         "it must be FLASHATTN_LAYOUT_DENSE (0), _RAGGED (1), _PAGED (2) or _PAGED_CSR (3)");
  }
  if (problem.dtype_bias != 0 && is_ragged(problem.layout_q)) {
    return fail(FLASHATTN_STATUS_UNSUPPORTED,
                "dtype_bias is %d; bias with ragged Q (layout_q FLASHATTN_LAYOUT_RAGGED) is not possible yet",
                problem.dtype_bias);
  }
  if (is_paged(problem.layout_kv) && (problem.features & FLASHATTN_FEATURE_SEQUSED_KV) == 0) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
                "features is 0x%" PRIx64 "; the paged layout_kv %d needs FLASHATTN_FEATURE_SEQUSED_KV (0x10)",
                problem.features, problem.layout_kv);
  }
  if ((problem.flags & FLASHATTN_FLAG_CU_SEQLENS_INT64) != 0 && !is_ragged(problem.layout_q) &&
      !is_ragged(problem.layout_kv)) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
                "flags is 0x%" PRIx64
                "; FLASHATTN_FLAG_CU_SEQLENS_INT64 (0x4) needs a ragged layout_q or layout_kv",
                problem.flags);
  }
  return kOk;
}

// A maximum that only one layout reads must be zero with the others: a caller who set it meant that layout.
Status check_layout_maximum(const char *field, int64_t value, bool used, const char *rule) {
  if (value < 0) return invalid_field(field, value, "it must not be negative");
  if (!used && value != 0) return invalid_field(field, value, rule);
  return kOk;
}

Status check_maxima(const flashattn_problem_t &problem) {
  if (problem.max_batch < 0) return invalid_field("max_batch", problem.max_batch, "it must not be negative");
  if (problem.max_seqlen_q < 0)
    return invalid_field("max_seqlen_q", problem.max_seqlen_q, "it must not be negative");
  if (problem.max_seqlen_kv < 0)
    return invalid_field("max_seqlen_kv", problem.max_seqlen_kv, "it must not be negative");
  const bool paged = is_paged(problem.layout_kv);
  if (paged && problem.page_size < 1) {
    return invalid_field("page_size", problem.page_size, "it must be at least 1 with a paged layout_kv");
  }
  if (!paged && problem.page_size != 0) {
    return invalid_field("page_size", problem.page_size, "it must be 0 unless layout_kv is paged");
  }
  if (Status status = check_layout_maximum("max_total_q", problem.max_total_q, is_ragged(problem.layout_q),
                                           "it must be 0 unless layout_q is ragged");
      status != kOk) {
    return status;
  }
  if (Status status = check_layout_maximum("max_total_kv", problem.max_total_kv, is_ragged(problem.layout_kv),
                                           "it must be 0 unless layout_kv is ragged");
      status != kOk) {
    return status;
  }
  return check_layout_maximum("max_pages", problem.max_pages, paged,
                              "it must be 0 unless layout_kv is paged");
}

Status check_product(const char *names, std::initializer_list<int64_t> factors) {
  int64_t product = 0;
  // Factors of zero would hide the others, which backends multiply in any order.
  int64_t at_least_one[4] = {1, 1, 1, 1};
  std::transform(factors.begin(), factors.end(), at_least_one,
                 [](int64_t x) { return std::max<int64_t>(x, 1); });
  if (product_within({at_least_one[0], at_least_one[1], at_least_one[2], at_least_one[3]}, kMaxElements,
                     &product)) {
    return kOk;
  }
  char values[96];
  int length = 0;
  for (const int64_t factor : factors) {
    length += std::snprintf(values + length, sizeof values - static_cast<size_t>(length), "%s%" PRId64,
                            length == 0 ? "" : " * ", factor);
  }
  return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "%s is %s; it must not exceed 2^52", names, values);
}

Status check_element_counts(const flashattn_problem_t &problem) {
  const int64_t batch = problem.max_batch;
  const int64_t heads_q = problem.num_heads_q;
  const int64_t heads_kv = problem.num_heads_kv;
  const int64_t dim = std::max(problem.head_dim, problem.head_dim_v);
  if (Status status =
          check_product("max_batch * num_heads_q * max_seqlen_q", {batch, heads_q, problem.max_seqlen_q});
      status != kOk) {
    return status;
  }
  if (Status status =
          check_product("max_batch * num_heads_kv * max_seqlen_kv", {batch, heads_kv, problem.max_seqlen_kv});
      status != kOk) {
    return status;
  }
  const Status rows_q =
      is_ragged(problem.layout_q)
          ? check_product("max_total_q * num_heads_q * head_dim", {problem.max_total_q, heads_q, dim})
          : check_product("max_batch * max_seqlen_q * num_heads_q * head_dim",
                          {batch, problem.max_seqlen_q, heads_q, dim});
  if (rows_q != kOk) return rows_q;
  if (is_ragged(problem.layout_kv)) {
    return check_product("max_total_kv * num_heads_kv * head_dim", {problem.max_total_kv, heads_kv, dim});
  }
  if (is_paged(problem.layout_kv)) {
    return check_product("max_pages * page_size * num_heads_kv * head_dim",
                         {problem.max_pages, problem.page_size, heads_kv, dim});
  }
  return check_product("max_batch * max_seqlen_kv * num_heads_kv * head_dim",
                       {batch, problem.max_seqlen_kv, heads_kv, dim});
}

Status check_bits(const flashattn_problem_t &problem) {
  if ((problem.features & ~kKnownFeatures) != 0) {
    return fail(FLASHATTN_STATUS_UNSUPPORTED,
                "features is 0x%" PRIx64 "; this version knows the bits 0x%" PRIx64 " only", problem.features,
                kKnownFeatures);
  }
  if ((problem.flags & ~kKnownFlags) != 0) {
    return fail(FLASHATTN_STATUS_UNSUPPORTED,
                "flags is 0x%" PRIx64 "; this version knows the bits 0x%" PRIx64 " only", problem.flags,
                kKnownFlags);
  }
  return kOk;
}

Status normalise_scores(flashattn_problem_t *problem) {
  if (!std::isfinite(problem->softmax_scale)) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "softmax_scale is %g; it must be finite",
                static_cast<double>(problem->softmax_scale));
  }
  if (problem->softmax_scale == 0.0F) {
    problem->softmax_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(problem->head_dim)));
  }
  if (!std::isfinite(problem->softcap) || problem->softcap < 0.0F) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT, "softcap is %g; it must be 0 (off), or finite and above 0",
                static_cast<double>(problem->softcap));
  }
  problem->softcap += 0.0F;  // -0 becomes 0
  return kOk;
}

Status normalise_mask(flashattn_problem_t *problem) {
  if (problem->causal != 0 && problem->causal != 1)
    return invalid_field("causal", problem->causal, "it must be 0 or 1");
  if ((problem->features & FLASHATTN_FEATURE_WINDOW) == 0) {
    constexpr const char *kRule = "it must be 0 unless features has FLASHATTN_FEATURE_WINDOW";
    if (problem->window_left != 0) return invalid_field("window_left", problem->window_left, kRule);
    if (problem->window_right != 0) return invalid_field("window_right", problem->window_right, kRule);
    return kOk;
  }
  if (problem->window_left < -1) {
    return invalid_field("window_left", problem->window_left, "it must be at least 0, or -1 for unbounded");
  }
  if (problem->window_right < -1) {
    return invalid_field("window_right", problem->window_right, "it must be at least 0, or -1 for unbounded");
  }
  if (problem->causal == 1) problem->window_right = 0;
  const bool right_open = problem->window_right == -1 || problem->causal == 1;
  if (problem->window_left == -1 && right_open) {
    problem->features &= ~FLASHATTN_FEATURE_WINDOW;
    problem->window_left = 0;
    problem->window_right = 0;
  }
  return kOk;
}

Status check_choices(const flashattn_problem_t &problem) {
  if (problem.num_splits < 0 || problem.num_splits > kMaxSplits) {
    return invalid_field("num_splits", problem.num_splits, "it must be in 0..256");
  }
  if (problem.num_splits != 0 && (problem.flags & FLASHATTN_FLAG_BATCH_INVARIANT) != 0) {
    return invalid_field("num_splits", problem.num_splits,
                         "it must be 0 with FLASHATTN_FLAG_BATCH_INVARIANT");
  }
  return kOk;
}

Status normalise_kernel(flashattn_problem_t *problem) {
  char *end = std::find(std::begin(problem->kernel), std::end(problem->kernel), '\0');
  if (end == std::end(problem->kernel)) {
    return fail(FLASHATTN_STATUS_INVALID_ARGUMENT,
                "kernel is \"%.64s\"; it must end in a NUL within its 64 bytes", problem->kernel);
  }
  std::fill(end, std::end(problem->kernel), '\0');
  return kOk;
}

}  // namespace

Status normalise_problem(const flashattn_problem_t *source, flashattn_problem_t *problem) {
  if (Status status = read_struct("problem", source, problem); status != kOk) return status;
  if (Status status = check_reserved(*problem); status != kOk) return status;
  if (Status status = normalise_dtypes(problem); status != kOk) return status;
  if (Status status = normalise_heads(problem); status != kOk) return status;
  if (Status status = check_bits(*problem); status != kOk) return status;
  if (Status status = check_layouts(*problem); status != kOk) return status;
  if (Status status = check_maxima(*problem); status != kOk) return status;
  if (Status status = check_element_counts(*problem); status != kOk) return status;
  if (Status status = normalise_scores(problem); status != kOk) return status;
  if (Status status = normalise_mask(problem); status != kOk) return status;
  if (Status status = check_choices(*problem); status != kOk) return status;
  return normalise_kernel(problem);
}

uint64_t materialized_bytes(const flashattn_problem_t &problem) {
  // Score and probability matrix, four bytes each.
  uint64_t bytes = uint64_t{2} * 4;
  for (const int32_t factor :
       {problem.max_batch, problem.num_heads_q, problem.max_seqlen_q, problem.max_seqlen_kv}) {
    if (factor == 0) return 0;
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(factor), &bytes)) bytes = UINT64_MAX;
  }
  return bytes;
}

}  // namespace flashattn
