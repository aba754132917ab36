// SPDX-License-Identifier: Apache-2.0
#include "backends/hip/driver.h"

#include <iterator>

#include "backends/driver_table.h"

namespace flashattn::hip {
namespace {

constexpr DriverMark kRequired = DriverMark::kRequired;
constexpr DriverEntry kEntries[] = {
    {"hipInit", offsetof(HipDriver, hipInit), kRequired},
    {"hipRuntimeGetVersion", offsetof(HipDriver, hipRuntimeGetVersion), kRequired},
    {"hipGetErrorName", offsetof(HipDriver, hipGetErrorName), kRequired},
    {"hipGetErrorString", offsetof(HipDriver, hipGetErrorString), kRequired},
    {"hipGetDeviceCount", offsetof(HipDriver, hipGetDeviceCount), kRequired},
    {"hipGetDevice", offsetof(HipDriver, hipGetDevice), kRequired},
    {"hipSetDevice", offsetof(HipDriver, hipSetDevice), kRequired},
    {"hipDeviceGetName", offsetof(HipDriver, hipDeviceGetName), kRequired},
    {"hipDeviceGetAttribute", offsetof(HipDriver, hipDeviceGetAttribute), kRequired},
    {"hipModuleLoadData", offsetof(HipDriver, hipModuleLoadData), kRequired},
    {"hipModuleUnload", offsetof(HipDriver, hipModuleUnload), kRequired},
    {"hipModuleGetFunction", offsetof(HipDriver, hipModuleGetFunction), kRequired},
    {"hipModuleLaunchKernel", offsetof(HipDriver, hipModuleLaunchKernel), kRequired},
    {"hipMalloc", offsetof(HipDriver, hipMalloc), kRequired},
    {"hipFree", offsetof(HipDriver, hipFree), kRequired},
    {"hipStreamIsCapturing", offsetof(HipDriver, hipStreamIsCapturing), kRequired},
};
constexpr const char *kLibraries[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                      "libamdhip64.so"};

DriverTable<HipDriver> g_driver({"the HIP runtime", "ROCm 5.2", kLibraries, std::size(kLibraries), kEntries,
                                 std::size(kEntries)});

}  // namespace

Status open_driver(const HipDriver **driver) {
  return g_driver.get(driver);
}

Status check(const HipDriver &driver, HipError result, const char *function) {
  if (result == kHipSuccess) return kOk;
  const char *name = driver.hipGetErrorName(result);
  const char *text = driver.hipGetErrorString(result);
  const Status status =
      result == kHipOutOfMemory ? FLASHATTN_STATUS_OUT_OF_MEMORY : FLASHATTN_STATUS_DRIVER_ERROR;
  return fail_driver(status, result, "%s failed: %s (%d), %s", function,
                     name != nullptr ? name : "unknown error", result,
                     text != nullptr ? text : "no description");
}

Status start(const HipDriver &driver, int32_t *devices) {
  *devices = 0;
  HipError result = driver.hipInit(0);
  if (result == kHipSuccess) result = driver.hipGetDeviceCount(devices);
  if (result == kHipNoDevice || result == kHipInvalidDevice || (result == kHipSuccess && *devices == 0)) {
    *devices = 0;
    return fail_driver(FLASHATTN_STATUS_NO_DEVICE, result,
                       "the HIP runtime is there, but it finds no device");
  }
  return check(driver, result, "hipInit");
}

}  // namespace flashattn::hip
