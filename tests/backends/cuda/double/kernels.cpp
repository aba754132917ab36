// SPDX-License-Identifier: Apache-2.0
// The kernels by name, run on the machine of this directory.
#include <cstring>
#include <exception>
#include <string>

#include "backends/cuda/kernels/sm90/params.h"
#include "backends/gpu/args.h"
#include "tests/backends/cuda/double/machine.h"
#include "tests/backends/cuda/fake/fake_cuda.h"

extern "C" {
#define CUDA_DOUBLE_HOPPER(kernel) void kernel(flashattn::sm90::FwdParams params);
#include "hopper_kernels.inc"
#undef CUDA_DOUBLE_HOPPER
void fwd_cuda_generic(flashattn::gpu::ForwardArgs args);
void combine_splits(flashattn::gpu::ForwardArgs args);
void merge_parts(flashattn::gpu::MergeArgs args);
}

namespace {

template <typename Args>
bool run_as(const char *wanted, void (*kernel)(Args), const char *name, unsigned grid, unsigned block,
            const void *arguments) {
  if (std::strcmp(wanted, name) != 0) return false;
  alignas(64) Args args;
  std::memcpy(&args, arguments, sizeof args);
  cuda_double::run(grid, block, [&] { kernel(args); });
  return true;
}

}  // namespace

const char *runFakeKernel(const char *name, unsigned grid, unsigned block, const void *arguments) {
  static std::string fault;
  try {
#define CUDA_DOUBLE_HOPPER(kernel) \
  if (run_as(#kernel, kernel, name, grid, block, arguments)) return nullptr;
#include "hopper_kernels.inc"
#undef CUDA_DOUBLE_HOPPER
    if (run_as("fwd_cuda_generic", fwd_cuda_generic, name, grid, block, arguments) ||
        run_as("combine_splits", combine_splits, name, grid, block, arguments) ||
        run_as("merge_parts", merge_parts, name, grid, block, arguments)) {
      return nullptr;
    }
    fault = std::string("the double has no ") + name;
  } catch (const std::exception &caught) {
    fault = std::string(name) + ": " + caught.what();
  }
  return fault.c_str();
}
