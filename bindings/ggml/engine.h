// SPDX-License-Identifier: Apache-2.0
// The engine that has loaded the plug-in: its functions, found at run time, and what its version makes different.
#pragma once

#include <cstdint>
#include <string>

#include "bindings/ggml/abi.h"

namespace flashattn::ggml {

// Where things lie in a ggml_backend, in pointers from its begin. The table of functions starts at 1, after the guid.
struct BackendLayout {
  int32_t graph_compute;
  int32_t device;
  int32_t context;
  int32_t size;
};

struct Engine {
  int32_t api_version;        // what the engine demands of a registration
  int32_t device_type_accel;  // ggml_backend_dev_type
  int32_t op_flash_attn_ext;  // ggml_op, whose numbers move from version to version
  int32_t view_ops[5];        // ops without arithmetic, which every backend of a graph has to pass over
  BackendLayout layout;
  bool openmp;  // the CPU backend runs its threads through OpenMP

  const char *(*op_name)(int32_t op);
  int32_t (*graph_n_nodes)(Graph *graph);
  Tensor *(*graph_node)(Graph *graph, int32_t index);
  BufferType *(*cpu_buffer_type)();
  bool (*buft_is_host)(BufferType *type);
  void (*log)(int32_t level, const char *format, ...);

  bool is_view(int32_t op) const;
};

// Looks at the engine in this process. False when the plug-in cannot serve it; reason then says why. engine->log is set
// whenever the engine's log could be found, else null.
bool find_engine(Engine *engine, std::string *reason);

}  // namespace flashattn::ggml
