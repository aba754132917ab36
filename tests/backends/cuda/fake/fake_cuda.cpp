// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/cuda/fake/fake_cuda.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#define FAKE_API extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kNotInitialized = 3;
constexpr int kInvalidContext = 201;
constexpr int kNotFound = 500;
#ifdef FAKE_CUDA_RUN
constexpr int kLaunchFailed = 719;
const char *g_fault = "no fault yet";
#endif
#ifdef FAKE_CUDA_NO_DEVICE
constexpr int kDevices = 0;
#else
constexpr int kDevices = 2;
#endif

struct Context {
  int device;
};
struct Module {
  Context *context;
};
struct Function {
  Module *module;
  std::string name;
  int shared = 0;
  bool resident = false;
};

std::mutex g_mutex;
bool g_initialized = false;
Context g_primary[2] = {{0}, {1}};
int g_retained[2] = {};
std::set<Context *> g_contexts;
std::deque<Context> g_made;  // make_context's
std::set<Module *> g_modules;
std::set<Function *> g_functions;
std::map<uint64_t, size_t> g_memory;
std::set<void *> g_capturing;
std::vector<FakeLaunch> g_launches;
int g_memsets = 0;
int g_mistakes = 0;
std::string g_fail_function;
int g_fail_code = 0;
thread_local std::vector<Context *> t_stack;

Context *current() {
  return t_stack.empty() ? nullptr : t_stack.back();
}

int mistake(int code) {
  ++g_mistakes;
  return code;
}

// The code a test wants this call to answer, or kSuccess. Every entry point begins with it.
int enter(const char *function, bool needs_context) {
  if (g_fail_function == function) {
    g_fail_function.clear();
    return g_fail_code;
  }
  if (!g_initialized) return mistake(kNotInitialized);
  if (needs_context && current() == nullptr) return mistake(kInvalidContext);
  return kSuccess;
}

[[maybe_unused]] size_t argument_size(const std::string &function) {
  if (function.rfind("fwd_sm90_", 0) == 0) return 640;
  return function == "merge_parts" ? 176 : 488;
}

#ifdef FAKE_CUDA_HOPPER
constexpr bool kHopper = true;
#else
constexpr bool kHopper = false;
#endif

}  // namespace

#define ENTER(name, needs_context)                 \
  const std::lock_guard<std::mutex> lock(g_mutex); \
  if (const int code = enter(name, needs_context); code != kSuccess) return code

FAKE_API int cuInit(unsigned /*flags*/) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (kDevices == 0) return 100;
  g_initialized = true;
  return enter("cuInit", false);
}
FAKE_API int cuDriverGetVersion(int *version) {
#ifdef FAKE_CUDA_OLD
  *version = 11080;
#else
  *version = 13000;
#endif
  return kSuccess;
}
FAKE_API int cuGetErrorName(int error, const char **name) {
  *name = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : nullptr;
  return *name == nullptr ? kInvalidValue : kSuccess;
}
FAKE_API int cuGetErrorString(int error, const char **text) {
#ifdef FAKE_CUDA_RUN
  if (error == kLaunchFailed) {
    *text = g_fault;
    return kSuccess;
  }
#endif
  *text = error == 2 ? "out of memory" : error == 700 ? "an illegal memory access was encountered" : nullptr;
  return *text == nullptr ? kInvalidValue : kSuccess;
}
FAKE_API int cuDeviceGet(int *device, int ordinal) {
  ENTER("cuDeviceGet", false);
  if (ordinal < 0 || ordinal >= kDevices) return 101;
  *device = ordinal;
  return kSuccess;
}
FAKE_API int cuDeviceGetCount(int *count) {
  ENTER("cuDeviceGetCount", false);
  *count = kDevices;
  return kSuccess;
}
FAKE_API int cuDeviceGetName(char *name, int size, int device) {
  ENTER("cuDeviceGetName", false);
  std::snprintf(name, static_cast<size_t>(size), "Fake CUDA %d", device);
  return kSuccess;
}
// Ampere: device 0 is an A100, device 1 has too little shared memory for the wide kernels. Hopper: two H200.
FAKE_API int cuDeviceGetAttribute(int *value, int attribute, int device) {
  ENTER("cuDeviceGetAttribute", false);
  const std::map<int, int> ampere = {{16, 108},
                                     {38, 40 << 20},
                                     {75, 8},
                                     {76, device == 0 ? 0 : 9},
                                     {97, device == 0 ? 163 << 10 : 60 << 10}};
  const std::map<int, int> hopper = {{16, 132}, {38, 60 << 20}, {75, 9}, {76, 0}, {97, 227 << 10}};
  const std::map<int, int> &attributes = kHopper ? hopper : ampere;
  const auto found = attributes.find(attribute);
  if (found == attributes.end()) return mistake(kInvalidValue);
  *value = found->second;
  return kSuccess;
}
FAKE_API int cuDevicePrimaryCtxRetain(void **context, int device) {
  ENTER("cuDevicePrimaryCtxRetain", false);
  ++g_retained[device];
  g_contexts.insert(&g_primary[device]);
  *context = &g_primary[device];
  return kSuccess;
}
FAKE_API int cuDevicePrimaryCtxRelease_v2(int device) {
  ENTER("cuDevicePrimaryCtxRelease", false);
  return --g_retained[device] < 0 ? mistake(kInvalidContext) : kSuccess;
}
FAKE_API int cuCtxGetCurrent(void **context) {
  ENTER("cuCtxGetCurrent", false);
  *context = current();
  return kSuccess;
}
FAKE_API int cuCtxPushCurrent_v2(void *context) {
  ENTER("cuCtxPushCurrent", false);
  if (g_contexts.count(static_cast<Context *>(context)) == 0) return mistake(kInvalidContext);
  t_stack.push_back(static_cast<Context *>(context));
  return kSuccess;
}
FAKE_API int cuCtxPopCurrent_v2(void **context) {
  ENTER("cuCtxPopCurrent", true);
  *context = t_stack.back();
  t_stack.pop_back();
  return kSuccess;
}
FAKE_API int cuCtxGetDevice(int *device) {
  ENTER("cuCtxGetDevice", true);
  *device = current()->device;
  return kSuccess;
}
FAKE_API int cuModuleLoadData(void **module, const void *image) {
  ENTER("cuModuleLoadData", true);
  // Fatbins begin with this word; an image the build left empty would not.
  uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic != 0xba55ed50) return mistake(kInvalidValue);
  auto *made = new Module{current()};
  g_modules.insert(made);
  *module = made;
  return kSuccess;
}
FAKE_API int cuModuleUnload(void *module) {
  ENTER("cuModuleUnload", true);
  auto *known = static_cast<Module *>(module);
  if (g_modules.erase(known) == 0 || known->context != current()) return mistake(kInvalidValue);
  for (auto it = g_functions.begin(); it != g_functions.end();) {
    if ((*it)->module == known) {
      delete *it;
      it = g_functions.erase(it);
    } else {
      ++it;
    }
  }
  delete known;
  return kSuccess;
}
FAKE_API int cuModuleGetFunction(void **function, void *module, const char *name) {
  ENTER("cuModuleGetFunction", true);
  if (g_modules.count(static_cast<Module *>(module)) == 0) return mistake(kNotFound);
  auto *made = new Function{static_cast<Module *>(module), name};
  g_functions.insert(made);
  *function = made;
  return kSuccess;
}
#ifndef FAKE_CUDA_NO_FUNC_LOAD
FAKE_API int cuFuncLoad(void *function) {
  ENTER("cuFuncLoad", true);
  static_cast<Function *>(function)->resident = true;
  return kSuccess;
}
#endif
FAKE_API int cuFuncGetAttribute(int *value, int /*attribute*/, void *function) {
  ENTER("cuFuncGetAttribute", true);
  static_cast<Function *>(function)->resident = true;
  *value = 128;
  return kSuccess;
}
FAKE_API int cuFuncSetAttribute(void *function, int attribute, int value) {
  ENTER("cuFuncSetAttribute", true);
  if (attribute != 8) return mistake(kInvalidValue);
  static_cast<Function *>(function)->shared = value;
  return kSuccess;
}
#ifndef FAKE_CUDA_MISSING
FAKE_API int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                            unsigned bz, unsigned shared, void *stream, void **parameters, void **extra) {
  ENTER("cuLaunchKernel", true);
  auto *known = static_cast<Function *>(function);
  const bool sizes =
      x > 0 && x <= INT32_MAX && y == 1 && z == 1 && bx > 0 && bx <= 1024 && by == 1 && bz == 1;
  if (g_functions.count(known) == 0 || !known->resident || known->module->context != current() || !sizes ||
      static_cast<int>(shared) > known->shared || extra != nullptr) {
    return mistake(kInvalidValue);
  }
  FakeLaunch launch{};
  launch.device = current()->device;
  launch.grid = x;
  launch.block = bx;
  launch.shared = shared;
  launch.stream = stream;
  std::snprintf(launch.function, sizeof launch.function, "%s", known->name.c_str());
  std::memcpy(launch.arguments, parameters[0], argument_size(known->name));
#ifdef FAKE_CUDA_RUN
  g_fault = runFakeKernel(launch.function, x, bx, launch.arguments);
  return g_fault == nullptr ? kSuccess : kLaunchFailed;
#else
  g_launches.push_back(launch);
  return kSuccess;
#endif
}
#endif
FAKE_API int cuMemAlloc_v2(uint64_t *memory, size_t size) {
  ENTER("cuMemAlloc", true);
  void *made = std::aligned_alloc(512, (size + 511) / 512 * 512);
  *memory = reinterpret_cast<uint64_t>(made);
  g_memory[*memory] = size;
  return kSuccess;
}
FAKE_API int cuMemFree_v2(uint64_t memory) {
  ENTER("cuMemFree", true);
  if (g_memory.erase(memory) == 0) return mistake(kInvalidValue);
  std::free(reinterpret_cast<void *>(memory));
  return kSuccess;
}
#ifdef FAKE_CUDA_RUN
FAKE_API int cuCtxSetCurrent(void *context) {
  ENTER("cuCtxSetCurrent", false);
  t_stack.assign(1, static_cast<Context *>(context));
  return kSuccess;
}
FAKE_API int cuStreamCreate(void **stream, unsigned /*flags*/) {
  static char streams[64];
  static int next = 0;
  *stream = streams + next++ % 64;
  return kSuccess;
}
FAKE_API int cuStreamSynchronize(void * /*stream*/) {
  return kSuccess;
}
FAKE_API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void * /*stream*/) {
  std::memcpy(reinterpret_cast<void *>(to), from, size);
  return kSuccess;
}
FAKE_API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void * /*stream*/) {
  std::memcpy(to, reinterpret_cast<const void *>(from), size);
  return kSuccess;
}
#endif
FAKE_API int cuMemsetD32Async(uint64_t memory, unsigned value, size_t count, void * /*stream*/) {
  ENTER("cuMemsetD32Async", true);
  if (memory % 4 != 0) return mistake(kInvalidValue);
  std::fill_n(reinterpret_cast<unsigned *>(memory), count, value);
  ++g_memsets;
  return kSuccess;
}
#ifndef FAKE_CUDA_NO_TENSOR_MAPS
// Holds the caller to the rules of the driver's manual for an uninterleaved map.
FAKE_API int cuTensorMapEncodeTiled(void *map, int data_type, unsigned rank, void *address,
                                    const uint64_t *dims, const uint64_t *strides, const unsigned *box,
                                    const unsigned *element_strides, int interleave, int swizzle,
                                    int promotion, int fill) {
  ENTER("cuTensorMapEncodeTiled", false);
  const auto at = reinterpret_cast<uintptr_t>(address);
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0 || rank != 4 || at == 0 || at % 16 != 0 || interleave != 0)
    return mistake(kInvalidValue);
  FakeTensorMap made{};
  for (unsigned n = 0; n < rank; ++n) {
    if (dims[n] == 0 || dims[n] > uint64_t{1} << 32 || box[n] == 0 || box[n] > 256 || element_strides[n] != 1)
      return mistake(kInvalidValue);
    made.dims[n] = dims[n];
    made.box[n] = box[n];
  }
  if (swizzle == 3 && box[0] * 2 > 128) return mistake(kInvalidValue);
  for (unsigned n = 0; n + 1 < rank; ++n) {
    if (strides[n] % 16 != 0) return mistake(kInvalidValue);
    if (strides[n] >= uint64_t{1} << 40) return kInvalidValue;  // what the backend relies on being told
    made.strides[n] = strides[n];
  }
  made.address = address;
  made.data_type = data_type;
  made.rank = static_cast<uint8_t>(rank);
  made.interleave = static_cast<uint8_t>(interleave);
  made.swizzle = static_cast<uint8_t>(swizzle);
  made.promotion = static_cast<uint8_t>(promotion);
  made.fill = static_cast<uint8_t>(fill);
  static_assert(sizeof made <= 128);
  std::memcpy(map, &made, sizeof made);
  return kSuccess;
}
#endif
FAKE_API int cuStreamIsCapturing(void *stream, int *status) {
  ENTER("cuStreamIsCapturing", true);
  if (stream == nullptr) return mistake(kInvalidValue);
  *status = g_capturing.count(stream) != 0 ? 1 : 0;
  return kSuccess;
}

namespace {
const FakeControl kControl = {
    [] { return static_cast<int>(g_launches.size()); },
    [](int index) { return g_launches.at(static_cast<size_t>(index)); },
    [] { return static_cast<int>(t_stack.size()); },
    [](int device) { return g_retained[device]; },
    [] { return static_cast<int>(g_modules.size()); },
    [] {
      int count = 0;
      for (const Function *function : g_functions) count += function->resident ? 1 : 0;
      return count;
    },
    [] {
      size_t bytes = 0;
      for (const auto &entry : g_memory) bytes += entry.second;
      return bytes;
    },
    [] { return g_memsets; },
    [] { return g_mistakes; },
    [](const char *function, int code) {
      g_fail_function = function;
      g_fail_code = code;
    },
    [](void *stream, int capturing) {
      if (capturing != 0) {
        g_capturing.insert(stream);
      } else {
        g_capturing.erase(stream);
      }
    },
    [](int device) -> void * {
      g_made.push_back({device});
      g_contexts.insert(&g_made.back());
      return &g_made.back();
    },
    [](void *context) { t_stack.push_back(static_cast<Context *>(context)); },
};
}  // namespace

FAKE_API const FakeControl *fakeControl() {
  return &kControl;
}
