// SPDX-License-Identifier: Apache-2.0
// The shipped file, loaded as engines load it: which ones it serves, and what it says to the others.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <string>

#include "bindings/ggml/abi.h"

namespace flashattn::ggml {
namespace {

using Init = Registration *(*)();

template <typename Function>
Function symbol(void *library, const char *name) {
  REQUIRE(library != nullptr);
  return reinterpret_cast<Function>(dlsym(library, name));
}

struct Loaded {
  void *engine = dlopen(FAKE_ENGINE, RTLD_NOW | RTLD_LOCAL);
  void *plugin = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);

  // What ggml_backend_init returns in this engine, and its log.
  Registration *init(bool cpu, int api_version, int table_length, std::string *log) {
    symbol<void (*)(bool, int, int)>(engine, "fake_engine_set")(cpu, api_version, table_length);
    Registration *registration = symbol<Init>(plugin, "ggml_backend_init")();
    *log = symbol<const char *(*)()>(engine, "fake_engine_log")();
    return registration;
  }
};

TEST_CASE("known engines are served, with their own api_version and place for each function") {
  Loaded loaded;
  std::string log;
  const struct {
    int api_version, table_length, graph_compute, device_type;
  } engines[] = {{1, 13, 10, 2}, {2, 14, 10, 3}, {2, 16, 12, 3}};
  for (const auto &engine : engines) {
    Registration *registration = loaded.init(true, engine.api_version, engine.table_length, &log);
    REQUIRE(registration != nullptr);
    CHECK(registration->api_version == engine.api_version);
    REQUIRE(registration->get_device_count(registration) == 1);
    Device *device = registration->get_device(registration, 0);
    CHECK(device->registration == registration);
    CHECK(device->get_type(device) == engine.device_type);
    Backend *backend = device->init_backend(device, nullptr);
    REQUIRE(backend != nullptr);
    for (int i = 0; i < engine.table_length; ++i) {
      CHECK((backend[1 + i] != nullptr) == (i == 0 || i == 1 || i == engine.graph_compute));
    }
    CHECK(backend[1 + engine.table_length] == device);
    reinterpret_cast<void (*)(Backend *)>(backend[2])(backend);
  }
}

TEST_CASE("an engine of another interface is refused with the reason") {
  Loaded loaded;
  std::string log;
  CHECK(loaded.init(true, 6, 16, &log) == nullptr);
  CHECK(log == "flashattn: not used: the engine's backend interface has api_version 6; known are 1 and 2\n");
  CHECK(loaded.init(true, 2, 15, &log) == nullptr);
  CHECK(log ==
        "flashattn: not used: ggml_backend_i has 15 functions in this engine; known are 13, 14 and 16\n");
  CHECK(loaded.init(false, 2, 16, &log) == nullptr);
  CHECK(log == "flashattn: not used: the engine has no CPU backend, whose memory this plug-in works on\n");
}

}  // namespace
}  // namespace flashattn::ggml
