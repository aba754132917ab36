// SPDX-License-Identifier: Apache-2.0
// A C++ program that throws and catches round the library, and has functions, classes and inline functions of
// the library's own names: linked with the archive or the shared library, neither may get the other's.
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tiny.h"

namespace flashattn {

// Names and signatures the library has inside.
int calls_of_fail = 0;
__attribute__((visibility("default"))) flashattn_status_t fail(flashattn_status_t, const char *,
                                                               ...) noexcept {
  return ++calls_of_fail;
}
__attribute__((visibility("default"))) int registry_count() {
  return -1;
}

}  // namespace flashattn

namespace {

const tiny_api_t kApi = {flashattn_create, flashattn_destroy, flashattn_call_contiguous, flashattn_attention,
                         flashattn_last_error};

// Throws through frames with destructors, and from templates that the library uses too.
int throw_and_catch() {
  int caught = 0;
  const auto owner = std::make_shared<std::vector<std::string>>(3, "text");
  try {
    const std::function<void()> thrower = [owner] { throw std::runtime_error(owner->at(1)); };
    thrower();
  } catch (const std::exception &error) {
    caught += std::string(error.what()) == "text";
  }
  try {
    (void)owner->at(99);
  } catch (const std::out_of_range &) {
    ++caught;
  }
  try {
    std::vector<char>().reserve(static_cast<size_t>(-1));
  } catch (const std::length_error &) {
    ++caught;
  }
  std::thread([&caught] {
    try {
      throw 7;
    } catch (int value) {
      caught += value == 7;
    }
  }).join();
  return caught == 4 ? 0 : 1;
}

void *FLASHATTN_CALL no_memory(void *, size_t, size_t) {
  return nullptr;
}
void FLASHATTN_CALL free_nothing(void *, void *, size_t, size_t) {}

// What the library throws inside must stay inside.
int out_of_memory() {
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CPU;
  options.alloc = no_memory;
  options.free = free_nothing;
  flashattn_handle_t *handle = nullptr;
  const flashattn_status_t status = flashattn_create(&options, &handle);
  flashattn_destroy(handle);
  return status == FLASHATTN_STATUS_OUT_OF_MEMORY ? 0 : 1;
}

}  // namespace

int main() {
  int failures = 0;
  for (int round = 0; round < 3; ++round) {
    failures += throw_and_catch();
    failures += tiny_attention(&kApi, 2);
    failures += out_of_memory();
    try {
      if (tiny_attention(&kApi, 3) == 0) throw std::string("thrown after a run");
      ++failures;
    } catch (const std::string &) {
    }
  }
  if (flashattn::calls_of_fail != 0) {
    std::printf("the library called the program's flashattn::fail\n");
    ++failures;
  }
  if (flashattn_backend_count() < 1) ++failures;
  return failures != 0;
}
