// SPDX-License-Identifier: Apache-2.0
// From a problem and a call to the arguments of a kernel, and the workspace both need.
#pragma once

#include <cstddef>

#include "backends/gpu/args.h"
#include "backends/gpu/splits.h"
#include "backends/gpu/tile.h"
#include "flashattn.h"

namespace flashattn::gpu {

// Everything of a problem and a checked call but how it is cut.
ForwardArgs describe_call(const flashattn_problem_t &problem, const flashattn_call_t &call);

// How the call is cut: splits, tiles, order and number of blocks. cache_bytes: K and V of a section may take
// this much.
void cut_call(const flashattn_problem_t &problem, const flashattn_call_t &call, const TileShape &tile,
              const SplitRule &rule, int64_t cache_bytes, ForwardArgs *args);

// Places the partial results of a call with these args, or counts them over a null workspace; returns the
// bytes. rows: rows x splits.
size_t carve_partials(void *workspace, int64_t rows, int32_t dim_v, float **partial_o, float **partial_lse);
inline constexpr size_t kWorkspaceAlignment = 256;

MergeArgs describe_merge(const flashattn_combine_args_t &args);

// Whether the bases and used strides of Q, K, V and O are multiples of `bytes`. nullptr, or the field that is
// not.
const char *misaligned_field(const flashattn_problem_t &problem, const flashattn_call_t &call, int64_t bytes);

// Bytes of one element of a FLASHATTN_DTYPE_* that GPU kernels read; 0 for others.
int64_t element_size(int32_t dtype);

}  // namespace flashattn::gpu
