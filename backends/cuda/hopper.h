// SPDX-License-Identifier: Apache-2.0
// What the kernels of kernels/sm90 ask of a problem, of a device and of a call, and how their argument is
// filled. They read their tensors through tensor maps, which are made on the host for each call.
#pragma once

#include <cstddef>

#include "backends/cuda/driver.h"
#include "backends/cuda/kernel_list.h"
#include "backends/cuda/kernels/sm90/geometry.h"
#include "backends/cuda/kernels/sm90/params.h"
#include "flashattn.h"

namespace flashattn::cuda {

// As refuse and yield of kernel_list.h, for what is particular to these kernels.
void refuse_hopper(const KernelEntry &kernel, const flashattn_problem_t &problem, const DeviceTraits &device,
                   char *reason, size_t size);
void yield_hopper(const KernelEntry &kernel, const flashattn_problem_t &problem, const DeviceTraits &device,
                  char *reason, size_t size);

// The start of their workspace: a counter of tiles, zero before the first launch and left zero by each.
inline constexpr size_t kTileCounterBytes = 256;

// Fills the argument of a call. nullptr, or the field whose strides no tensor map can hold: the call is then
// for another kernel. Bases and strides are multiples of 16 bytes.
const char *describe_hopper_call(const CudaDriver &driver, const KernelEntry &kernel,
                                 const flashattn_problem_t &problem, const flashattn_call_t &call,
                                 void *tile_counter, sm90::FwdParams *params);

}  // namespace flashattn::cuda
