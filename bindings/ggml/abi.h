// SPDX-License-Identifier: Apache-2.0
// The part of ggml's binary interface that a backend needs, declared here so that one plug-in serves several engine
// versions and none has to be installed to build it. tests/engine/abi_test.cpp holds each line against the headers of
// real engines. Sources: ggml.h, ggml-backend.h and ggml-backend-impl.h of ggml.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flashattn::ggml {

// ggml_tensor. The same in every engine this plug-in knows.
struct Tensor {
  int32_t type;  // kType*
  void *buffer;
  int64_t ne[4];  // extents, the contiguous one first
  size_t nb[4];   // strides in bytes
  int32_t op;     // numbered differently by each engine version; see Engine
  int32_t op_params[16];
  int32_t flags;
  Tensor *src[10];
  Tensor *view_src;
  size_t view_offs;
  void *data;
  char name[64];
  void *extra;
  char padding[8];
};

// ggml_type: values that have never moved.
constexpr int32_t kTypeF32 = 0;
constexpr int32_t kTypeF16 = 1;
constexpr int32_t kTypeBf16 = 30;

// ggml_status.
constexpr int32_t kStatusFailed = -1;
constexpr int32_t kStatusSuccess = 0;

// ggml_log_level.
constexpr int32_t kLogInfo = 2;
constexpr int32_t kLogWarn = 3;
constexpr int32_t kLogError = 4;

struct Graph;       // ggml_cgraph, read through functions only
struct BufferType;  // ggml_backend_buffer_type, likewise
struct Device;
struct Registration;

// ggml_backend, whose table of functions grows from version to version: guid, the table, device, context, all of the
// size of a pointer. Engine::layout says how long the table is.
using Backend = void *;

// ggml_backend_dev_props as far as all versions agree; the engine zeroes the rest.
struct DeviceProperties {
  const char *name;
  const char *description;
  size_t memory_free;
  size_t memory_total;
  int32_t type;
};

// ggml_backend_device.
struct Device {
  const char *(*get_name)(Device *device);
  const char *(*get_description)(Device *device);
  void (*get_memory)(Device *device, size_t *free, size_t *total);
  int32_t (*get_type)(Device *device);
  void (*get_props)(Device *device, DeviceProperties *properties);
  Backend *(*init_backend)(Device *device, const char *parameters);
  BufferType *(*get_buffer_type)(Device *device);
  void *get_host_buffer_type;  // the optional ones, which this plug-in leaves out
  void *buffer_from_host_ptr;
  bool (*supports_op)(Device *device, const Tensor *op);
  bool (*supports_buft)(Device *device, BufferType *type);
  void *offload_op;
  void *event_new;
  void *event_free;
  void *event_synchronize;
  Registration *registration;
  void *context;
};

// ggml_backend_reg.
struct Registration {
  int32_t api_version;
  const char *(*get_name)(Registration *registration);
  size_t (*get_device_count)(Registration *registration);
  Device *(*get_device)(Registration *registration, size_t index);
  void *(*get_proc_address)(Registration *registration, const char *name);
  void *context;
};

// ggml_backend_feature, what "ggml_backend_get_features" returns a list of, ended by a null name.
struct Feature {
  const char *name;
  const char *value;
};

}  // namespace flashattn::ggml
