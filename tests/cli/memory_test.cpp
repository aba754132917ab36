// SPDX-License-Identifier: Apache-2.0
// Host memory, and device memory through a libcuda.so.1 that keeps it in host memory (fake_cuda.cpp).
#include "tools/cli/memory.h"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "flashattn.h"
#include "tools/cli/error.h"

using namespace flashattn::cli;

namespace {

void round_trip(Memory &memory) {
  const std::string sent = "seventeen letters";
  std::string received(sent.size(), '.');
  Buffer buffer(memory, sent.size());
  CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % 256 == 0);
  memory.upload(buffer.data(), sent.data(), sent.size());
  Buffer moved = std::move(buffer);
  memory.download(received.data(), moved.data(), received.size());
  CHECK(received == sent);
  const Buffer empty(memory, 0);
  memory.upload(empty.data(), nullptr, 0);
  memory.download(nullptr, empty.data(), 0);
}

int fake_cuda_held() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  auto *held = reinterpret_cast<int (*)()>(dlsym(library, "fake_cuda_held"));
  REQUIRE((held != nullptr));
  return held();
}

}  // namespace

TEST_CASE("memory: what goes to the host backend's memory comes back") {
  round_trip(*make_memory(FLASHATTN_BACKEND_CPU, 0));
}

TEST_CASE("memory: what goes to a CUDA device comes back, and everything is given back") {
  round_trip(*make_memory(FLASHATTN_BACKEND_CUDA, 0));
  CHECK(fake_cuda_held() == 0);
}

TEST_CASE("memory: a driver's refusal names the function and the code") {
  try {
    make_memory(FLASHATTN_BACKEND_CUDA, 7);
    FAIL("device 7 was accepted");
  } catch (const Failure &failure) {
    CHECK(std::string(failure.what()) == "cuDevicePrimaryCtxRetain failed with CUresult 101");
  }
  CHECK_THROWS_AS(make_memory(FLASHATTN_BACKEND_HIP, 0), Failure);
}
