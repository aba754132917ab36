// SPDX-License-Identifier: Apache-2.0
// The registration that an engine loads: one device, which computes one op in the memory of the engine's CPU backend.
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "bindings/ggml/abi.h"
#include "bindings/ggml/attention.h"
#include "bindings/ggml/engine.h"
#include "bindings/ggml/operation.h"
#include "bindings/ggml/threads.h"
#include "flashattn.h"

namespace flashattn::ggml {
namespace {

constexpr const char *kName = "FlashAttn";
constexpr const char *kDescription = "exact attention of libflashattn on the CPU";
constexpr int32_t kMostPointers = 40;  // of a ggml_backend

struct Plugin {
  Engine engine;
  flashattn_parallel_for_fn parallel_for = nullptr;
  Registration registration = {};
  Device device = {};
  std::mutex mutex;  // of declined
  std::set<std::string> declined;
};
Plugin plugin;
std::atomic<uint64_t> total_calls{0};

// One ggml_backend: what the engine sees, and what belongs to it.
struct Stream {
  Backend words[kMostPointers] = {};
  Attention attention{plugin.parallel_for};
  int32_t num_threads = 1;  // until the engine says
  uint64_t calls = 0;
};

Stream &stream_of(Backend *backend) {
  return *static_cast<Stream *>(backend[plugin.engine.layout.context]);
}

template <typename Function>
Backend pointer(Function *function) {
  return reinterpret_cast<Backend>(function);
}

// ------------------------------------------------------------------------------------------------ ggml_backend

const char *backend_name(Backend *) {
  return kName;
}

void backend_free(Backend *backend) {
  Stream *stream = &stream_of(backend);
  if (stream->calls > 0) {
    plugin.engine.log(
        kLogInfo,
        "flashattn: %llu attention calls served; masks read as lengths, causality or window %llu times, as "
        "a bias %llu times\n",
        static_cast<unsigned long long>(stream->calls),
        static_cast<unsigned long long>(stream->attention.num_bands()),
        static_cast<unsigned long long>(stream->attention.num_biased()));
  }
  delete stream;
}

bool compute(Stream *stream, const Tensor &op) {
  std::string reason;
  Operation operation;
  if (read_operation(op, &operation, &reason) &&
      stream->attention.run(operation, stream->num_threads, &reason)) {
    ++stream->calls;
    ++total_calls;
    return true;
  }
  plugin.engine.log(kLogError, "flashattn: %s: %s\n", op.name, reason.c_str());
  return false;
}

int32_t backend_graph_compute(Backend *backend, Graph *graph) {
  const Engine &engine = plugin.engine;
  try {
    for (int32_t i = 0; i < engine.graph_n_nodes(graph); ++i) {
      const Tensor &node = *engine.graph_node(graph, i);
      if (engine.is_view(node.op)) continue;
      if (node.op != engine.op_flash_attn_ext) {
        engine.log(kLogError, "flashattn: was given op %s, which it does not have\n",
                   engine.op_name(node.op));
        return kStatusFailed;
      }
      if (!compute(&stream_of(backend), node)) return kStatusFailed;
    }
  } catch (const std::exception &error) {
    engine.log(kLogError, "flashattn: %s\n", error.what());
    return kStatusFailed;
  }
  return kStatusSuccess;
}

// --------------------------------------------------------------------------------------------- ggml_backend_device

const char *device_name(Device *) {
  return kName;
}
const char *device_description(Device *) {
  return kDescription;
}

// Memory is the CPU backend's, and counted there.
void device_memory(Device *, size_t *free, size_t *total) {
  *free = 0;
  *total = 0;
}

int32_t device_type(Device *) {
  return plugin.engine.device_type_accel;
}

void device_properties(Device *, DeviceProperties *properties) {
  *properties = {kName, kDescription, 0, 0, plugin.engine.device_type_accel};
}

Backend *device_init_backend(Device *device, const char *) {
  static unsigned char guid[16] = {0x66, 0x6c, 0x61, 0x73, 0x68, 0x61, 0x74, 0x74,
                                   0x6e, 0x2d, 0x67, 0x67, 0x6d, 0x6c, 0x2d, 0x31};
  const BackendLayout &layout = plugin.engine.layout;
  try {
    auto stream = std::make_unique<Stream>();
    stream->words[0] = guid;
    stream->words[1] = pointer(backend_name);
    stream->words[2] = pointer(backend_free);
    stream->words[layout.graph_compute] = pointer(backend_graph_compute);
    stream->words[layout.device] = device;
    stream->words[layout.context] = stream.get();
    return stream.release()->words;
  } catch (const std::exception &error) {
    plugin.engine.log(kLogError, "flashattn: %s\n", error.what());
    return nullptr;
  }
}

// The engine compares this pointer with the CPU's to see that nothing needs to be copied.
BufferType *device_buffer_type(Device *) {
  return plugin.engine.cpu_buffer_type();
}

bool device_supports_op(Device *, const Tensor *op) {
  if (plugin.engine.is_view(op->op)) return true;
  if (op->op != plugin.engine.op_flash_attn_ext) return false;
  Operation operation;
  std::string reason;
  if (read_operation(*op, &operation, &reason)) return true;
  const std::lock_guard<std::mutex> lock(plugin.mutex);
  if (plugin.declined.insert(reason).second) {
    plugin.engine.log(kLogInfo, "flashattn: attention is left to the engine where %s\n", reason.c_str());
  }
  return false;
}

bool device_supports_buffer(Device *, BufferType *type) {
  return plugin.engine.buft_is_host(type);
}

// ------------------------------------------------------------------------------------------------ ggml_backend_reg

void set_n_threads(Backend *backend, int32_t num_threads) {
  stream_of(backend).num_threads = num_threads < 1 ? 1 : num_threads;
}

const char *registration_name(Registration *) {
  return kName;
}
size_t registration_device_count(Registration *) {
  return 1;
}
Device *registration_device(Registration *, size_t) {
  return &plugin.device;
}

void *registration_function(Registration *, const char *name) {
  return std::string(name) == "ggml_backend_set_n_threads" ? pointer(set_n_threads) : nullptr;
}

void fill_tables() {
  Registration &registration = plugin.registration;
  registration.api_version = plugin.engine.api_version;
  registration.get_name = registration_name;
  registration.get_device_count = registration_device_count;
  registration.get_device = registration_device;
  registration.get_proc_address = registration_function;
  Device &device = plugin.device;
  device.get_name = device_name;
  device.get_description = device_description;
  device.get_memory = device_memory;
  device.get_type = device_type;
  device.get_props = device_properties;
  device.init_backend = device_init_backend;
  device.get_buffer_type = device_buffer_type;
  device.supports_op = device_supports_op;
  device.supports_buft = device_supports_buffer;
  device.registration = &registration;
}

Registration *init() {
  std::string reason;
  if (!find_engine(&plugin.engine, &reason)) {
    if (plugin.engine.log != nullptr) {
      plugin.engine.log(kLogError, "flashattn: not used: %s\n", reason.c_str());
    }
    return nullptr;
  }
  plugin.parallel_for = engine_parallel_for(plugin.engine);
  fill_tables();
  plugin.engine.log(
      kLogInfo, "flashattn: libflashattn %s serves attention on %s\n", flashattn_version_string(),
      plugin.parallel_for != nullptr ? "the engine's OpenMP threads"
                                     : "threads of its own, as the engine was built without OpenMP");
  return &plugin.registration;
}

}  // namespace
}  // namespace flashattn::ggml

#define FLASHATTN_GGML_EXPORT __attribute__((visibility("default")))

// What engines look for in a backend library: the registration, or null to be left alone. The reason is in the log.
extern "C" FLASHATTN_GGML_EXPORT void *ggml_backend_init() {
  return flashattn::ggml::init();
}

// Attention calls served in this process so far, over all contexts.
extern "C" FLASHATTN_GGML_EXPORT uint64_t flashattn_ggml_calls() {
  return flashattn::ggml::total_calls;
}
