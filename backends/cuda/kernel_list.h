// SPDX-License-Identifier: Apache-2.0
// The forward kernels, from specific to generic. Whether one takes a problem, what it needs and how it is
// launched all answer from its one entry.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/gpu/tile.h"
#include "flashattn.h"

namespace flashattn::cuda {

// What kernels may ask of a device.
struct DeviceTraits {
  int32_t multiprocessors;
  int32_t shared_limit;  // bytes of shared memory that a block may ask for
  int64_t l2_bytes;
  int32_t capability;  // 10 * major + minor
  bool tensor_maps;    // the driver makes them
};

// What a kernel is given, and by whom it is launched.
enum class Family : int32_t {
  kGeneric,  // gpu::ForwardArgs
  kAmpere,   // gpu::ForwardArgs
  kHopper,   // sm90::FwdParams, see hopper.h
};

struct KernelEntry {
  const char *name;
  const unsigned char *image;
  const char *plain;     // entry point
  const char *modified;  // entry point for softcap, ALiBi, bias and negative scales; may be the same
  gpu::TileShape tile;
  int32_t resident;   // blocks per multiprocessor
  int32_t alignment;  // of bases and strides, in bytes; 0 = the element's
  int32_t dtype;      // of Q, K and V; 0 = any
  int32_t head_dim;   // of Q, K and V, at most; kHopper: exactly
  Family family;

  bool generic() const { return family == Family::kGeneric; }
};

int32_t kernel_count();
const KernelEntry &kernel_at(int32_t index);
const KernelEntry &generic_kernel();

// Empty when the kernel takes the problem on this device, else why not: field, value, rule.
void refuse(const KernelEntry &kernel, const flashattn_problem_t &problem, const DeviceTraits &device,
            char *reason, size_t size);

// Empty, or why a kernel further down the list is the better choice for a problem that this one takes. Not
// asked of a kernel that is forced by name.
void yield(const KernelEntry &kernel, const flashattn_problem_t &problem, const DeviceTraits &device,
           char *reason, size_t size);

}  // namespace flashattn::cuda
