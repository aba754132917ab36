// SPDX-License-Identifier: Apache-2.0
// Compiled, never run, against the headers of an engine: each line holds one thing that bindings/ggml takes for granted.
#include <cstddef>

#include "bindings/ggml/abi.h"
#include "ggml-backend-impl.h"
#include "ggml.h"

namespace ours = flashattn::ggml;

#define SAME(type, field, theirs, their_field) \
  static_assert(offsetof(ours::type, field) == offsetof(theirs, their_field), #type "::" #field)

SAME(Tensor, type, ggml_tensor, type);
SAME(Tensor, ne, ggml_tensor, ne);
SAME(Tensor, nb, ggml_tensor, nb);
SAME(Tensor, op, ggml_tensor, op);
SAME(Tensor, op_params, ggml_tensor, op_params);
SAME(Tensor, src, ggml_tensor, src);
SAME(Tensor, data, ggml_tensor, data);
SAME(Tensor, name, ggml_tensor, name);
static_assert(sizeof(ours::Tensor) == sizeof(ggml_tensor), "Tensor");

SAME(DeviceProperties, name, ggml_backend_dev_props, name);
SAME(DeviceProperties, description, ggml_backend_dev_props, description);
SAME(DeviceProperties, memory_free, ggml_backend_dev_props, memory_free);
SAME(DeviceProperties, memory_total, ggml_backend_dev_props, memory_total);
SAME(DeviceProperties, type, ggml_backend_dev_props, type);
static_assert(sizeof(ours::DeviceProperties) <= sizeof(ggml_backend_dev_props), "DeviceProperties");

SAME(Device, get_name, ggml_backend_device, iface.get_name);
SAME(Device, get_description, ggml_backend_device, iface.get_description);
SAME(Device, get_memory, ggml_backend_device, iface.get_memory);
SAME(Device, get_type, ggml_backend_device, iface.get_type);
SAME(Device, get_props, ggml_backend_device, iface.get_props);
SAME(Device, init_backend, ggml_backend_device, iface.init_backend);
SAME(Device, get_buffer_type, ggml_backend_device, iface.get_buffer_type);
SAME(Device, supports_op, ggml_backend_device, iface.supports_op);
SAME(Device, supports_buft, ggml_backend_device, iface.supports_buft);
SAME(Device, registration, ggml_backend_device, reg);
SAME(Device, context, ggml_backend_device, context);
static_assert(sizeof(ours::Device) == sizeof(ggml_backend_device), "Device");

SAME(Registration, api_version, ggml_backend_reg, api_version);
SAME(Registration, get_name, ggml_backend_reg, iface.get_name);
SAME(Registration, get_device_count, ggml_backend_reg, iface.get_device_count);
SAME(Registration, get_device, ggml_backend_reg, iface.get_device);
SAME(Registration, get_proc_address, ggml_backend_reg, iface.get_proc_address);
SAME(Registration, context, ggml_backend_reg, context);
static_assert(sizeof(ours::Registration) == sizeof(ggml_backend_reg), "Registration");

static_assert(offsetof(ggml_backend, iface) == sizeof(void *), "a guid, then the table");
static_assert(offsetof(ggml_backend_i, get_name) == 0, "get_name");
static_assert(offsetof(ggml_backend_i, free) == sizeof(void *), "free");
constexpr size_t kLength = sizeof(ggml_backend_i) / sizeof(void *);
constexpr size_t kGraphCompute = offsetof(ggml_backend_i, graph_compute) / sizeof(void *);
static_assert((kLength == 13 && kGraphCompute == 10) || (kLength == 14 && kGraphCompute == 10) ||
                  (kLength == 16 && kGraphCompute == 12),
              "a table of another length");
static_assert(sizeof(ggml_backend) == (3 + kLength) * sizeof(void *),
              "device and context, and nothing after them");

static_assert(GGML_BACKEND_API_VERSION == 1 || GGML_BACKEND_API_VERSION == 2, "api_version");
static_assert(GGML_BACKEND_DEVICE_TYPE_ACCEL == (GGML_BACKEND_API_VERSION == 1 ? 2 : 3), "ACCEL");
static_assert(GGML_TYPE_F32 == ours::kTypeF32 && GGML_TYPE_F16 == ours::kTypeF16 &&
                  GGML_TYPE_BF16 == ours::kTypeBf16,
              "types");
static_assert(GGML_STATUS_FAILED == ours::kStatusFailed && GGML_STATUS_SUCCESS == ours::kStatusSuccess,
              "status");
static_assert(GGML_LOG_LEVEL_INFO == ours::kLogInfo && GGML_LOG_LEVEL_WARN == ours::kLogWarn &&
                  GGML_LOG_LEVEL_ERROR == ours::kLogError,
              "log levels");
