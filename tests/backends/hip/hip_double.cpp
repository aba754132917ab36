// SPDX-License-Identifier: Apache-2.0
// A double of AMD's HIP runtime, libamdhip64.so.6, on the interpreter of tests/support/gcn: "device" memory
// is this process's, kernels run on the calling thread when they are launched, every access of theirs held to
// what hipMalloc gave out. A kernel that breaks a rule is a launch failure whose error string says which.
//
// FLASHATTN_HIP_DOUBLE in the environment: "none", no device; "gfx90a", a device the kernels are not for;
// unset, two MI300X.
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "tests/support/gcn/machine.h"
#include "tests/support/gcn/trap.h"

#define HIP_DOUBLE_API extern "C" __attribute__((visibility("default")))

namespace {

using flashattn::gcn::MemoryRange;
using flashattn::gcn::Program;

// hipError_t.
constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kNoDevice = 100;
constexpr int kInvalidDevice = 101;
constexpr int kInvalidImage = 200;
constexpr int kNoBinaryForGpu = 209;
constexpr int kNotFound = 500;
constexpr int kLaunchFailure = 719;
// hipDeviceAttribute_t.
constexpr int kCapabilityMajor = 23;
constexpr int kL2CacheSize = 30;
constexpr int kCapabilityMinor = 61;
constexpr int kMultiprocessorCount = 63;

constexpr int kDevices = 2;
constexpr int kComputeUnits = 304;
constexpr size_t kAlignment = 256;
constexpr uint32_t kTurn = 50;  // most instructions before another wave may run

struct Module {
  Program program;
};

struct Function {
  Module *module;
  std::string name;
};

struct State {
  std::mutex mutex;
  std::map<void *, size_t> memory;
  std::map<Module *, std::unique_ptr<Module>> modules;
  std::map<Function *, std::unique_ptr<Function>> functions;
  uint64_t launches = 0;
};

State &state() {
  static State *const instance = new State;  // outlives every user
  return *instance;
}

thread_local int current_device = 0;
thread_local std::string failure;

std::string mode() {
  const char *value = std::getenv("FLASHATTN_HIP_DOUBLE");
  return value != nullptr ? value : "";
}

std::vector<uint8_t> pack_arguments(const flashattn::gcn::Kernel &kernel, void **parameters) {
  std::vector<uint8_t> bytes;
  size_t index = 0;
  for (const flashattn::gcn::Argument &argument : kernel.arguments) {
    if (argument.kind.compare(0, 7, "hidden_") == 0) continue;
    bytes.resize(argument.offset + argument.size);
    std::memcpy(&bytes[argument.offset], parameters[index++], argument.size);
  }
  return bytes;
}

}  // namespace

HIP_DOUBLE_API int hipInit(unsigned /*flags*/) {
  return mode() == "none" ? kNoDevice : kSuccess;
}

HIP_DOUBLE_API int hipRuntimeGetVersion(int *version) {
  *version = 60342131;
  return kSuccess;
}

HIP_DOUBLE_API const char *hipGetErrorName(int error) {
  switch (error) {
    case kSuccess:
      return "hipSuccess";
    case kInvalidValue:
      return "hipErrorInvalidValue";
    case kOutOfMemory:
      return "hipErrorOutOfMemory";
    case kNoDevice:
      return "hipErrorNoDevice";
    case kInvalidDevice:
      return "hipErrorInvalidDevice";
    case kInvalidImage:
      return "hipErrorInvalidImage";
    case kNoBinaryForGpu:
      return "hipErrorNoBinaryForGpu";
    case kNotFound:
      return "hipErrorNotFound";
    case kLaunchFailure:
      return "hipErrorLaunchFailure";
    default:
      return "hipErrorUnknown";
  }
}

HIP_DOUBLE_API const char *hipGetErrorString(int error) {
  return error == kLaunchFailure || error == kInvalidImage ? failure.c_str() : hipGetErrorName(error);
}

HIP_DOUBLE_API int hipGetDeviceCount(int *count) {
  *count = mode() == "none" ? 0 : kDevices;
  return mode() == "none" ? kNoDevice : kSuccess;
}

HIP_DOUBLE_API int hipGetDevice(int *device) {
  *device = current_device;
  return kSuccess;
}

HIP_DOUBLE_API int hipSetDevice(int device) {
  if (device < 0 || device >= kDevices) return kInvalidDevice;
  current_device = device;
  return kSuccess;
}

HIP_DOUBLE_API int hipDeviceGetName(char *name, int size, int device) {
  if (device < 0 || device >= kDevices) return kInvalidDevice;
  std::snprintf(name, static_cast<size_t>(size), "%s",
                mode() == "gfx90a" ? "AMD Instinct MI210" : "AMD Instinct MI300X");
  return kSuccess;
}

HIP_DOUBLE_API int hipDeviceGetAttribute(int *value, int attribute, int device) {
  if (device < 0 || device >= kDevices) return kInvalidDevice;
  switch (attribute) {
    case kCapabilityMajor:
      *value = 9;
      return kSuccess;
    case kCapabilityMinor:
      *value = mode() == "gfx90a" ? 0 : 4;
      return kSuccess;
    case kMultiprocessorCount:
      *value = kComputeUnits;
      return kSuccess;
    case kL2CacheSize:
      *value = 4 << 20;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}

HIP_DOUBLE_API int hipMalloc(void **memory, size_t size) {
  *memory = std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
  if (*memory == nullptr) return kOutOfMemory;
  std::memset(*memory, 0x5a, size);
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().memory[*memory] = size;
  return kSuccess;
}

HIP_DOUBLE_API int hipFree(void *memory) {
  {
    const std::lock_guard<std::mutex> lock(state().mutex);
    if (memory != nullptr && state().memory.erase(memory) == 0) return kInvalidValue;
  }
  std::free(memory);
  return kSuccess;
}

HIP_DOUBLE_API int hipMemcpyAsync(void *to, const void *from, size_t size, int /*kind*/, void * /*stream*/) {
  std::memcpy(to, from, size);
  return kSuccess;
}

// Streams are names only: work is done when it is enqueued.
HIP_DOUBLE_API int hipStreamCreateWithFlags(void **stream, unsigned /*flags*/) {
  static int next = 0;
  *stream = &next;
  return kSuccess;
}
HIP_DOUBLE_API int hipStreamSynchronize(void * /*stream*/) {
  return kSuccess;
}
HIP_DOUBLE_API int hipStreamIsCapturing(void * /*stream*/, int *status) {
  *status = 0;
  return kSuccess;
}

HIP_DOUBLE_API int hipModuleLoadData(void **module, const void *image) {
  try {
    const size_t size = flashattn::gcn::code_object_size(image);
    if (size == 0) throw std::runtime_error("not a code object");
    auto loaded = std::make_unique<Module>(
        Module{Program(std::string(static_cast<const char *>(image), size), FLASHATTN_GCN_OBJDUMP)});
    if (loaded->program.object().architecture != "gfx942") return kNoBinaryForGpu;
    *module = loaded.get();
    const std::lock_guard<std::mutex> lock(state().mutex);
    state().modules[loaded.get()] = std::move(loaded);
    return kSuccess;
  } catch (const std::exception &caught) {
    failure = caught.what();
    return kInvalidImage;
  }
}

HIP_DOUBLE_API int hipModuleUnload(void *module) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return state().modules.erase(static_cast<Module *>(module)) == 1 ? kSuccess : kInvalidValue;
}

HIP_DOUBLE_API int hipModuleGetFunction(void **function, void *module, const char *name) {
  auto *owner = static_cast<Module *>(module);
  if (owner->program.object().kernels.count(name) == 0) return kNotFound;
  auto found = std::make_unique<Function>(Function{owner, name});
  *function = found.get();
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().functions[found.get()] = std::move(found);
  return kSuccess;
}

HIP_DOUBLE_API int hipModuleLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                         unsigned block_x, unsigned block_y, unsigned block_z,
                                         unsigned shared_bytes, void * /*stream*/, void **parameters,
                                         void ** /*extra*/) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  const auto *kernel = static_cast<Function *>(function);
  const Program &program = kernel->module->program;
  flashattn::gcn::Launch launch;
  launch.grid = {grid_x, grid_y, grid_z};
  launch.block = {block_x, block_y, block_z};
  launch.dynamic_lds_bytes = shared_bytes;
  launch.arguments = pack_arguments(program.kernel(kernel->name), parameters);
  std::vector<MemoryRange> ranges;
  for (const auto &[memory, size] : state().memory) {
    const uint64_t begin = reinterpret_cast<uint64_t>(memory);
    ranges.push_back({begin, begin + size, true, "a hipMalloc of " + std::to_string(size) + " bytes"});
  }
  flashattn::gcn::MachineOptions options;
  options.seed = ++state().launches;
  options.quantum = kTurn;
  try {
    flashattn::gcn::run(program, kernel->name, launch, ranges, options);
    return kSuccess;
  } catch (const std::exception &caught) {
    failure = kernel->name + ": " + caught.what();
    return kLaunchFailure;
  }
}
