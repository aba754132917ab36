// SPDX-License-Identifier: Apache-2.0
#include "bindings/ggml/engine.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace flashattn::ggml {
namespace {

// What is known of each ggml_backend_reg.api_version.
struct ApiVersion {
  int32_t api_version;
  int32_t device_type_accel;
};
constexpr ApiVersion kApiVersions[] = {
    {1, 2}, {2, 3},  // GGML_BACKEND_DEVICE_TYPE_IGPU came before ACCEL
};

// The tables of functions in a ggml_backend that are known, by their length, which grew without a new api_version.
struct Table {
  int32_t length;
  int32_t graph_compute;
};
constexpr Table kTables[] = {
    {13, 10},
    {14, 10},  // + graph_optimize, last
    {16, 12},  // + set_tensor_2d_async, get_tensor_2d_async, before graph_compute
};
constexpr int32_t kLongestTable = 32;

// Handles of libraries that the engine has loaded already; never closed, as the engine keeps them anyway.
void *loaded(const char *name) {
  return dlopen(name, RTLD_NOW | RTLD_NOLOAD);
}

template <typename Function>
bool find(const char *name, Function *function, std::string *reason) {
  for (const char *library : {"libggml-base.so.0", "libggml-base.so", "libggml.so.0", "libggml.so",
                              static_cast<const char *>(nullptr)}) {
    void *handle = library == nullptr ? RTLD_DEFAULT : loaded(library);
    if (library != nullptr && handle == nullptr) continue;
    if (void *symbol = dlsym(handle, name)) {
      *function = reinterpret_cast<Function>(symbol);
      return true;
    }
  }
  *reason = std::string("no function ") + name + " in this process: is ggml built as shared libraries?";
  return false;
}

// Length of the function table: in a backend of the engine's own, the device comes right after it.
int32_t table_length(Backend *backend, const Device *device) {
  for (int32_t length = 1; length <= kLongestTable; ++length) {
    if (backend[1 + length] == device) return length;
  }
  return 0;
}

bool find_layout(Device *cpu, BackendLayout *layout, std::string *reason) {
  void (*backend_free)(Backend *) = nullptr;
  if (!find("ggml_backend_free", &backend_free, reason)) return false;
  Backend *backend = cpu->init_backend(cpu, nullptr);
  if (backend == nullptr) {
    *reason = "the engine's CPU backend does not start";
    return false;
  }
  const int32_t length = table_length(backend, cpu);
  bool known = false;
  for (const Table &table : kTables) {
    if (table.length != length || backend[1 + table.graph_compute] == nullptr) continue;
    *layout = {1 + table.graph_compute, 1 + length, 2 + length, 3 + length};
    known = true;
  }
  backend_free(backend);
  if (!known) {
    *reason =
        "ggml_backend_i has " + std::to_string(length) + " functions in this engine; known are 13, 14 and 16";
  }
  return known;
}

// The number of an op by its name. Names are asked for from 0 up and never past the wanted one: where the engine's list
// ends cannot be asked, but every engine with a known api_version has the ops that this plug-in looks for.
int32_t find_op(const Engine &engine, const char *name) {
  int32_t op = 0;
  while (std::strcmp(engine.op_name(op), name) != 0) ++op;
  return op;
}

bool has_openmp(Registration *cpu) {
  void *symbol =
      cpu->get_proc_address == nullptr ? nullptr : cpu->get_proc_address(cpu, "ggml_backend_get_features");
  if (symbol == nullptr) return false;
  const auto get_features = reinterpret_cast<Feature *(*)(Registration *)>(symbol);
  for (const Feature *feature = get_features(cpu); feature->name != nullptr; ++feature) {
    if (std::strcmp(feature->name, "OPENMP") == 0) return true;
  }
  return false;
}

}  // namespace

bool Engine::is_view(int32_t op) const {
  return std::find(std::begin(view_ops), std::end(view_ops), op) != std::end(view_ops);
}

bool find_engine(Engine *engine, std::string *reason) {
  *engine = {};
  Registration *(*reg_by_name)(const char *) = nullptr;
  if (!find("ggml_log_internal", &engine->log, reason) ||
      !find("ggml_backend_reg_by_name", &reg_by_name, reason) ||
      !find("ggml_op_name", &engine->op_name, reason) ||
      !find("ggml_graph_n_nodes", &engine->graph_n_nodes, reason) ||
      !find("ggml_graph_node", &engine->graph_node, reason) ||
      !find("ggml_backend_cpu_buffer_type", &engine->cpu_buffer_type, reason) ||
      !find("ggml_backend_buft_is_host", &engine->buft_is_host, reason)) {
    return false;
  }
  Registration *cpu = reg_by_name("CPU");
  if (cpu == nullptr || cpu->get_device_count(cpu) == 0) {
    *reason = "the engine has no CPU backend, whose memory this plug-in works on";
    return false;
  }
  // The engine compares api_version for equality and names its own in each registration.
  const ApiVersion *known = nullptr;
  for (const ApiVersion &version : kApiVersions) {
    if (version.api_version == cpu->api_version) known = &version;
  }
  if (known == nullptr) {
    *reason = "the engine's backend interface has api_version " + std::to_string(cpu->api_version) +
              "; known are 1 and 2";
    return false;
  }
  engine->api_version = known->api_version;
  engine->device_type_accel = known->device_type_accel;
  engine->openmp = has_openmp(cpu);
  engine->op_flash_attn_ext = find_op(*engine, "FLASH_ATTN_EXT");
  constexpr const char *kViewOps[] = {"NONE", "RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE"};
  std::transform(std::begin(kViewOps), std::end(kViewOps), engine->view_ops,
                 [engine](const char *name) { return find_op(*engine, name); });
  return find_layout(cpu->get_device(cpu, 0), &engine->layout, reason);
}

}  // namespace flashattn::ggml
