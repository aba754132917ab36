/* SPDX-License-Identifier: Apache-2.0
 *
 * A libcuda.so.1 with two devices that runs nothing: it keeps account of contexts, code and memory, and
 * writes down every launch. The tests open it the way the real one is opened, through LD_LIBRARY_PATH.
 *
 * Variants: FAKE_CUDA_OLD answers version 11.8; FAKE_CUDA_MISSING lacks cuLaunchKernel; FAKE_CUDA_NO_DEVICE
 * has no device; FAKE_CUDA_NO_FUNC_LOAD lacks the optional cuFuncLoad; FAKE_CUDA_HOPPER has two H200 in place of
 * Ampere-class devices; FAKE_CUDA_NO_TENSOR_MAPS lacks the optional cuTensorMapEncodeTiled.
 *
 * With FAKE_CUDA_RUN launches are carried out, by runFakeKernel. Memory is the host's, streams are names.
 */
#ifndef FLASHATTN_TESTS_FAKE_CUDA_H_
#define FLASHATTN_TESTS_FAKE_CUDA_H_

#include <cstddef>
#include <cstdint>

struct FakeLaunch {
  int device;
  char function[64];
  unsigned grid, block, shared;
  void *stream;
  alignas(64) unsigned char arguments[1024]; /* as many as the kernel's parameter has */
};

/* What cuTensorMapEncodeTiled leaves in its 128 bytes here. */
struct FakeTensorMap {
  void *address;
  uint64_t dims[4];
  uint64_t strides[3]; /* bytes */
  uint32_t box[4];
  int32_t data_type;
  uint8_t rank, interleave, swizzle, promotion, fill;
};

/* Runs kernel `name`; nullptr, or what it did wrong. Linked where FAKE_CUDA_RUN is defined. */
const char *runFakeKernel(const char *name, unsigned grid, unsigned block, const void *arguments);

/* What fakeControl(), found with dlsym, returns. */
struct FakeControl {
  int (*launches)(); /* so far */
  FakeLaunch (*launch)(int index);
  int (*stack_depth)();        /* contexts the calling thread has current */
  int (*retained)(int device); /* references to a primary context */
  int (*modules)();            /* loaded now */
  int (*functions_loaded)();   /* functions whose code was made resident */
  size_t (*bytes_in_use)();
  int (*memsets)();  /* so far */
  int (*mistakes)(); /* calls without the right context, of unloaded functions, ... */
  void (*fail)(const char *function, int code); /* the next call of function answers code */
  void (*set_capturing)(void *stream, int capturing);
  void *(*make_context)(int device);   /* as cuCtxCreate, not made current */
  void (*make_current)(void *context); /* pushes */
};

#endif /* FLASHATTN_TESTS_FAKE_CUDA_H_ */
