// SPDX-License-Identifier: Apache-2.0
// An engine of which only the backend interface is there, under the name that the plug-in looks for. What it claims to
// be is set by fake_engine_set.
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "bindings/ggml/abi.h"

namespace {

using flashattn::ggml::Backend;
using flashattn::ggml::Device;
using flashattn::ggml::Registration;

constexpr const char *kOps[] = {"NONE", "ADD", "RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE", "FLASH_ATTN_EXT"};
Registration cpu_registration;
Device cpu_device;
Backend cpu_backend[40];
bool has_cpu = true;
std::string log_text;

void function_of_the_table() {}

Backend *init_backend(Device *, const char *) {
  return cpu_backend;
}
size_t device_count(Registration *) {
  return 1;
}
Device *device(Registration *, size_t) {
  return &cpu_device;
}

}  // namespace

extern "C" {

// The engine has a CPU backend of this api_version, whose table of functions is this long, or none.
void fake_engine_set(bool cpu, int api_version, int table_length) {
  has_cpu = cpu;
  cpu_registration = {};
  cpu_registration.api_version = api_version;
  cpu_registration.get_device_count = device_count;
  cpu_registration.get_device = device;
  cpu_device = {};
  cpu_device.init_backend = init_backend;
  std::memset(cpu_backend, 0, sizeof(cpu_backend));
  for (int i = 1; i <= table_length; ++i) cpu_backend[i] = reinterpret_cast<Backend>(function_of_the_table);
  cpu_backend[1 + table_length] = &cpu_device;
  log_text.clear();
}

const char *fake_engine_log() {
  return log_text.c_str();
}

void ggml_log_internal(int, const char *format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  log_text += line;
}

Registration *ggml_backend_reg_by_name(const char *) {
  return has_cpu ? &cpu_registration : nullptr;
}
const char *ggml_op_name(int op) {
  return kOps[op];
}
int ggml_graph_n_nodes(void *) {
  return 0;
}
void *ggml_graph_node(void *, int) {
  return nullptr;
}
void *ggml_backend_cpu_buffer_type() {
  return &cpu_device;
}
bool ggml_backend_buft_is_host(void *) {
  return true;
}
void ggml_backend_free(Backend *) {}

}  // extern "C"
