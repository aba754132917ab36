// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_driver.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>

#define FAKE_API extern "C" __attribute__((visibility("default")))

namespace {

#ifdef FAKE_DRIVER_NO_DEVICE
constexpr int kDeviceCount = 0;
#else
constexpr int kDeviceCount = 2;
#endif

struct Work {
  fake_work_fn run;
  fake_work_fn drop;
  void *argument;
};

struct Stream {
  std::deque<Work> queue;
  bool capturing = false;
};

struct Driver {
  std::mutex running;  // from taking work off its stream to its end: streams run one at a time and in order
  std::mutex mutex;    // everything below
  Stream default_stream;
  std::map<void *, Stream *> streams;
  std::map<void *, size_t> memory;
  std::array<int, 2> launches{};
  int fail_next = 0;
};

Driver &driver() {
  static Driver instance;
  return instance;
}

// The mutex is held.
Stream *find(void *stream) {
  if (stream == nullptr) return &driver().default_stream;
  const auto found = driver().streams.find(stream);
  return found == driver().streams.end() ? nullptr : found->second;
}

int take_failure() {
  const int code = driver().fail_next;
  driver().fail_next = 0;
  return code;
}

void run_all(std::deque<Work> queue) {
  for (const Work &work : queue) {
    work.run(work.argument);
    work.drop(work.argument);
  }
}

}  // namespace

FAKE_API int fakeDriverGetVersion(int *version) {
  *version = 12020;
  return FAKE_SUCCESS;
}

FAKE_API int fakeDeviceGetCount(int *count) {
  *count = kDeviceCount;
  return FAKE_SUCCESS;
}

FAKE_API int fakeDeviceGetName(char *name, size_t size, int device) {
  if (device < 0 || device >= kDeviceCount) return FAKE_INVALID_VALUE;
  std::snprintf(name, size, "Fake GPU %d", device);
  return FAKE_SUCCESS;
}

FAKE_API int fakeMemAlloc(void **memory, size_t size, size_t alignment, int /*device*/) {
  const std::lock_guard<std::mutex> lock(driver().mutex);
  if (const int code = take_failure(); code != 0) return code;
  if (posix_memalign(memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, size) != 0) {
    return FAKE_OUT_OF_MEMORY;
  }
  driver().memory[*memory] = size;
  return FAKE_SUCCESS;
}

FAKE_API int fakeStreamSynchronize(void *stream) {
  const std::lock_guard<std::mutex> running(driver().running);
  std::deque<Work> queue;
  {
    const std::lock_guard<std::mutex> lock(driver().mutex);
    Stream *found = find(stream);
    if (found == nullptr) return FAKE_INVALID_VALUE;
    queue.swap(found->queue);
  }
  run_all(std::move(queue));
  return FAKE_SUCCESS;
}

FAKE_API int fakeMemFree(void *memory) {
  const std::lock_guard<std::mutex> running(driver().running);
  std::deque<Work> queue;
  {
    const std::lock_guard<std::mutex> lock(driver().mutex);
    queue.swap(driver().default_stream.queue);
    for (auto &entry : driver().streams) {
      for (const Work &work : entry.second->queue) queue.push_back(work);
      entry.second->queue.clear();
    }
  }
  run_all(std::move(queue));
  const std::lock_guard<std::mutex> lock(driver().mutex);
  if (driver().memory.erase(memory) == 0) return FAKE_INVALID_VALUE;
  std::free(memory);
  return FAKE_SUCCESS;
}

FAKE_API int fakeStreamIsCapturing(void *stream, int *capturing) {
  const std::lock_guard<std::mutex> lock(driver().mutex);
  const Stream *found = find(stream);
  if (found == nullptr) return FAKE_INVALID_VALUE;
  *capturing = found->capturing ? 1 : 0;
  return FAKE_SUCCESS;
}

#ifndef FAKE_DRIVER_OLD
FAKE_API int fakeLaunch(void *stream, int device, fake_work_fn run, fake_work_fn drop, void *argument) {
  const std::lock_guard<std::mutex> lock(driver().mutex);
  Stream *found = find(stream);
  int code = take_failure();
  if (found == nullptr || device < 0 || device >= kDeviceCount) code = FAKE_INVALID_VALUE;
  if (code != FAKE_SUCCESS) {
    drop(argument);
    return code;
  }
  found->queue.push_back({run, drop, argument});
  ++driver().launches[static_cast<size_t>(device)];
  return FAKE_SUCCESS;
}
#endif

FAKE_API int fakeStreamCreate(void **stream) {
  const std::lock_guard<std::mutex> lock(driver().mutex);
  auto *made = new Stream;
  driver().streams[made] = made;
  *stream = made;
  return FAKE_SUCCESS;
}

FAKE_API int fakeStreamDestroy(void *stream) {
  fakeStreamSynchronize(stream);
  const std::lock_guard<std::mutex> lock(driver().mutex);
  delete find(stream);
  driver().streams.erase(stream);
  return FAKE_SUCCESS;
}

FAKE_API void fakeStreamSetCapturing(void *stream, int capturing) {
  const std::lock_guard<std::mutex> lock(driver().mutex);
  find(stream)->capturing = capturing != 0;
}

FAKE_API void fakeFailNext(int code) {
  const std::lock_guard<std::mutex> lock(driver().mutex);
  driver().fail_next = code;
}

FAKE_API int fakeLaunchCount(int device) {
  const std::lock_guard<std::mutex> lock(driver().mutex);
  return driver().launches[static_cast<size_t>(device)];
}

FAKE_API size_t fakeBytesInUse(void) {
  const std::lock_guard<std::mutex> lock(driver().mutex);
  size_t bytes = 0;
  for (const auto &entry : driver().memory) bytes += entry.second;
  return bytes;
}

FAKE_API int fakeQueued(void) {
  const std::lock_guard<std::mutex> lock(driver().mutex);
  size_t queued = driver().default_stream.queue.size();
  for (const auto &entry : driver().streams) queued += entry.second->queue.size();
  return static_cast<int>(queued);
}
