// SPDX-License-Identifier: Apache-2.0
#include "tests/support/test_backend.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_backend.h"

namespace flashattn::testing {
namespace {

constexpr DriverEntry kEntries[] = {
    {"fakeDriverGetVersion", offsetof(fake_driver_t, fakeDriverGetVersion), DriverMark::kRequired},
    {"fakeDeviceGetCount", offsetof(fake_driver_t, fakeDeviceGetCount), DriverMark::kRequired},
    {"fakeDeviceGetName", offsetof(fake_driver_t, fakeDeviceGetName), DriverMark::kRequired},
    {"fakeMemAlloc", offsetof(fake_driver_t, fakeMemAlloc), DriverMark::kRequired},
    {"fakeMemFree", offsetof(fake_driver_t, fakeMemFree), DriverMark::kRequired},
    {"fakeStreamIsCapturing", offsetof(fake_driver_t, fakeStreamIsCapturing), DriverMark::kRequired},
    {"fakeLaunch", offsetof(fake_driver_t, fakeLaunch), DriverMark::kRequired},
    {"fakeLaunchNewer", offsetof(fake_driver_t, fakeLaunchNewer), DriverMark::kOptional},
};

// What every workspace begins with: the mark that workspace_init leaves and run demands of the plan that owns
// it.
struct Stamp {
  const void *plan;
};

Status check(int code, const char *function) {
  if (code == FAKE_SUCCESS) return kOk;
  return fail_driver(FLASHATTN_STATUS_DRIVER_ERROR, code, "%s failed with code %d", function, code);
}

// Work of one call, kept alive until the stream has run it.
template <typename Body>
Status launch(const fake_driver_t &driver, void *stream, int device, Body body) {
  auto *queued = new Body(std::move(body));
  const fake_work_fn run = [](void *argument) { (*static_cast<Body *>(argument))(); };
  const fake_work_fn drop = [](void *argument) { delete static_cast<Body *>(argument); };
  return check(driver.fakeLaunch(stream, device, run, drop, queued), "fakeLaunch");
}

// Kernels have no way to report; a fault of this double itself must not pass unseen.
void demand(bool condition, const char *what) {
  if (condition) return;
  std::fprintf(stderr, "test backend: %s\n", what);
  std::abort();
}

class TestPlan final : public BackendPlan {
 public:
  TestPlan(const fake_driver_t &driver, int device, std::shared_ptr<BackendDevice> cpu_device,
           std::shared_ptr<BackendPlan> cpu)
      : driver_(driver), device_(device), cpu_device_(std::move(cpu_device)), cpu_(std::move(cpu)) {
    flashattn_plan_info_t info{};
    cpu_->info(&info);
    cpu_size_ = info.workspace_size;
    cpu_alignment_ = info.workspace_alignment;
  }

  void info(flashattn_plan_info_t *info) const override {
    cpu_->info(info);
    info->backend = FLASHATTN_BACKEND_CUDA;
    info->device = device_;
    info->workspace_size = sizeof(Stamp);
    info->workspace_alignment = 64;
    info->capturable = 1;
  }
  const std::vector<std::string> &reasons() const override { return cpu_->reasons(); }

  Status workspace_init(void *workspace, void *stream) const override {
    const void *self = this;
    return launch(driver_, stream, device_,
                  [workspace, self] { static_cast<Stamp *>(workspace)->plan = self; });
  }

  Status run(const flashattn_call_t &call, void *workspace, void *stream) const override {
    // Captures what the CPU needs, not this plan, which may be gone when the work runs.
    const void *self = this;
    auto work = [call, workspace, self, device = cpu_device_, cpu = cpu_, size = cpu_size_,
                 alignment = cpu_alignment_] {
      demand(static_cast<Stamp *>(workspace)->plan == self,
             "run in a workspace that another plan initialised");
      void *scratch = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
      demand(cpu->run(call, scratch, nullptr) == kOk, "the CPU plan failed");
      std::free(scratch);
    };
    return launch(driver_, stream, device_, std::move(work));
  }

 private:
  const fake_driver_t &driver_;
  int device_;
  std::shared_ptr<BackendDevice> cpu_device_;  // outlives cpu_
  std::shared_ptr<BackendPlan> cpu_;
  size_t cpu_size_ = 0;
  size_t cpu_alignment_ = 0;
};

class TestDevice final : public BackendDevice {
 public:
  TestDevice(const fake_driver_t &driver, int device, std::shared_ptr<BackendDevice> cpu)
      : driver_(driver), device_(device), cpu_(std::move(cpu)) {}

  void info(flashattn_handle_info_t *info) const override {
    info->backend = FLASHATTN_BACKEND_CUDA;
    info->device = device_;
    info->num_threads = 0;
    driver_.fakeDeviceGetName(info->name, sizeof info->name, device_);
  }

  Status plan(const flashattn_problem_t &problem, std::unique_ptr<BackendPlan> *plan) override {
    std::unique_ptr<BackendPlan> cpu;
    if (Status status = cpu_->plan(problem, &cpu); status != kOk) return status;
    *plan = std::make_unique<TestPlan>(driver_, device_, cpu_, std::move(cpu));
    return kOk;
  }

  Status combine(const flashattn_combine_args_t &args, void *stream) override {
    return launch(driver_, stream, device_, [args, cpu = cpu_] { cpu->combine(args, nullptr); });
  }

  Status allocate(size_t size, size_t alignment, void **memory) override {
    const int code = driver_.fakeMemAlloc(memory, size, alignment, device_);
    if (code != FAKE_OUT_OF_MEMORY) return check(code, "fakeMemAlloc");
    return fail_driver(FLASHATTN_STATUS_OUT_OF_MEMORY, code, "device memory ran out: %zu bytes of workspace",
                       size);
  }
  void release(void *memory, size_t /*size*/, size_t /*alignment*/) override { driver_.fakeMemFree(memory); }

  Status is_capturing(void *stream, bool *capturing) override {
    int answer = 0;
    const Status status = check(driver_.fakeStreamIsCapturing(stream, &answer), "fakeStreamIsCapturing");
    *capturing = answer != 0;
    return status;
  }
  bool asynchronous() const override { return true; }

 private:
  const fake_driver_t &driver_;
  int device_;
  std::shared_ptr<BackendDevice> cpu_;
};

}  // namespace

TestBackend::TestBackend(const char *const *libraries, size_t library_count)
    : driver_({"the fake driver", "driver 12.2", libraries, library_count, kEntries, std::size(kEntries)}) {}

Status TestBackend::probe(int32_t *count, int32_t *driver_version) const {
  *count = 0;
  const fake_driver_t *driver = nullptr;
  if (Status status = driver_.get(&driver); status != kOk) return status;
  driver->fakeDriverGetVersion(driver_version);
  driver->fakeDeviceGetCount(count);
  if (*count > 0) return kOk;
  return fail(FLASHATTN_STATUS_NO_DEVICE, "the fake driver is there, but it has no device");
}

Status TestBackend::device_info(int32_t ordinal, flashattn_device_info_t *info) const {
  const fake_driver_t *driver = nullptr;
  if (Status status = driver_.get(&driver); status != kOk) return status;
  info->compute_units = 4;
  return check(driver->fakeDeviceGetName(info->name, sizeof info->name, ordinal), "fakeDeviceGetName");
}

int32_t TestBackend::kernel_count() const {
  return cpu_backend().kernel_count();
}

void TestBackend::kernel_info(int32_t index, flashattn_kernel_info_t *info) const {
  cpu_backend().kernel_info(index, info);
}

Status TestBackend::open(const flashattn_options_t &options, const Host &host,
                         std::unique_ptr<BackendDevice> *device) const {
  const fake_driver_t *driver = nullptr;
  if (Status status = driver_.get(&driver); status != kOk) return status;
  flashattn_options_t cpu_options = options;
  cpu_options.device = 0;
  cpu_options.num_threads = 1;
  std::unique_ptr<BackendDevice> cpu;
  if (Status status = cpu_backend().open(cpu_options, host, &cpu); status != kOk) return status;
  *device = std::make_unique<TestDevice>(*driver, options.device, std::move(cpu));
  return kOk;
}

fake_control_t open_control(const char *library) {
  void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  demand(opened != nullptr, "the fake driver library is missing");
  fake_control_t control{};
  const struct {
    const char *symbol;
    void *slot;
  } entries[] = {{"fakeStreamCreate", &control.fakeStreamCreate},
                 {"fakeStreamDestroy", &control.fakeStreamDestroy},
                 {"fakeStreamSynchronize", &control.fakeStreamSynchronize},
                 {"fakeStreamSetCapturing", &control.fakeStreamSetCapturing},
                 {"fakeFailNext", &control.fakeFailNext},
                 {"fakeLaunchCount", &control.fakeLaunchCount},
                 {"fakeBytesInUse", &control.fakeBytesInUse},
                 {"fakeQueued", &control.fakeQueued}};
  for (const auto &entry : entries) {
    void *address = dlsym(opened, entry.symbol);
    demand(address != nullptr, entry.symbol);
    std::memcpy(entry.slot, &address, sizeof address);
  }
  return control;
}

}  // namespace flashattn::testing
