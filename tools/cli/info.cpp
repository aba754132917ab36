// SPDX-License-Identifier: Apache-2.0
// flashattn info: what this library and this machine can do.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "flashattn.h"
#include "tools/cli/command.h"
#include "tools/cli/error.h"
#include "tools/cli/library.h"
#include "tools/cli/text.h"

namespace flashattn::cli {

namespace {

struct BackendReport {
  flashattn_backend_info_t info{};
  std::vector<flashattn_device_info_t> devices;
  std::vector<flashattn_kernel_info_t> kernels;
};

BackendReport look_at(int32_t index) {
  BackendReport report;
  report.info.struct_size = sizeof report.info;
  require(flashattn_backend_info(index, &report.info));
  for (int32_t i = 0; i < report.info.device_count; ++i) {
    flashattn_device_info_t device{};
    device.struct_size = sizeof device;
    require(flashattn_device_info(report.info.backend, i, &device));
    report.devices.push_back(device);
  }
  for (int32_t i = 0; i < report.info.kernel_count; ++i) {
    flashattn_kernel_info_t kernel{};
    kernel.struct_size = sizeof kernel;
    require(flashattn_kernel_info(report.info.backend, i, &kernel));
    report.kernels.push_back(kernel);
  }
  return report;
}

// cuDriverGetVersion counts 1000 * major + 10 * minor; other vendors' numbers are shown as they are.
std::string driver_text(const flashattn_backend_info_t &info) {
  const int32_t version = info.driver_version;
  if (version == 0) return "";
  if (info.backend != FLASHATTN_BACKEND_CUDA) return std::to_string(version);
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string capability_text(const flashattn_device_info_t &device) {
  if (device.capability_major == 0) return "";
  return std::to_string(device.capability_major) + "." + std::to_string(device.capability_minor);
}

void print_text(const std::vector<BackendReport> &reports) {
  std::cout << "libflashattn " << flashattn_version_string() << "\n\nBackends\n";
  for (const BackendReport &report : reports) {
    const auto &info = report.info;
    const std::string driver = driver_text(info);
    std::cout << "  " << padded(info.name, 6);
    if (info.status == FLASHATTN_STATUS_OK) {
      std::cout << "ready: " << info.device_count << (info.device_count == 1 ? " device, " : " devices, ")
                << info.kernel_count << " kernels" << (driver.empty() ? "" : ", driver " + driver);
    } else {
      std::cout << "not available: " << info.reason;
    }
    std::cout << "\n";
  }
  std::cout << "\nDevices\n";
  for (const BackendReport &report : reports) {
    for (const auto &device : report.devices) {
      const char *units = device.backend == FLASHATTN_BACKEND_CPU    ? "cores"
                          : device.backend == FLASHATTN_BACKEND_CUDA ? "SMs"
                                                                     : "CUs";
      const std::string capability = capability_text(device);
      std::cout << "  " << padded(std::string(report.info.name) + " " + std::to_string(device.ordinal), 8)
                << device.name << ", " << device.compute_units << " " << units;
      if (!capability.empty()) std::cout << ", compute capability " << capability;
      if (device.total_memory_bytes > 0) {
        std::cout << ", " << bytes_text(static_cast<double>(device.total_memory_bytes));
      }
      std::cout << "\n          " << device.features << "\n";
    }
  }
  std::cout << "\nKernels, most specific first\n";
  for (const BackendReport &report : reports) {
    for (const auto &kernel : report.kernels) {
      std::cout << "  " << padded(report.info.name, 6) << padded(kernel.name, 36)
                << (kernel.available != 0 ? "available" : std::string("no: ") + kernel.reason) << "\n";
    }
  }
}

void print_json(const std::vector<BackendReport> &reports) {
  using nlohmann::ordered_json;
  ordered_json root{{"version", flashattn_version_string()}, {"backends", ordered_json::array()}};
  for (const BackendReport &report : reports) {
    const auto &info = report.info;
    ordered_json backend{{"name", info.name},
                         {"status", info.status},
                         {"status_text", flashattn_status_string(info.status)},
                         {"reason", info.reason},
                         {"driver_version", info.driver_version},
                         {"devices", ordered_json::array()},
                         {"kernels", ordered_json::array()}};
    for (const auto &device : report.devices) {
      backend["devices"].push_back({{"ordinal", device.ordinal},
                                    {"name", device.name},
                                    {"features", device.features},
                                    {"compute_units", device.compute_units},
                                    {"capability_major", device.capability_major},
                                    {"capability_minor", device.capability_minor},
                                    {"total_memory_bytes", device.total_memory_bytes}});
    }
    for (const auto &kernel : report.kernels) {
      backend["kernels"].push_back(
          {{"name", kernel.name}, {"available", kernel.available != 0}, {"reason", kernel.reason}});
    }
    root["backends"].push_back(backend);
  }
  std::cout << root.dump(2) << "\n";
}

}  // namespace

void add_info_command(CLI::App &app, Action *action) {
  CLI::App *command =
      app.add_subcommand("info", "Show backends, devices, drivers, CPU features and every kernel");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print one JSON object");
  command->footer("Examples:\n  flashattn info\n  flashattn info --json | jq '.backends[].kernels[].name'");
  command->callback([=] {
    *action = [=] {
      std::vector<BackendReport> reports;
      const int32_t count = flashattn_backend_count();
      reports.reserve(static_cast<size_t>(count));
      for (int32_t i = 0; i < count; ++i) reports.push_back(look_at(i));
      *json ? print_json(reports) : print_text(reports);
      return kExitOk;
    };
  });
}

}  // namespace flashattn::cli
