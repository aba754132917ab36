// SPDX-License-Identifier: Apache-2.0
#include "backends/registry.h"

#include <iterator>

#include "backends/cpu/cpu_backend.h"
#include "backends/not_built.h"
#ifdef FLASHATTN_WITH_CUDA
#include "backends/cuda/cuda_backend.h"
#endif
#ifdef FLASHATTN_WITH_HIP
#include "backends/hip/hip_backend.h"
#endif

namespace flashattn {
namespace {

#ifndef FLASHATTN_WITH_CUDA
constexpr NotBuiltBackend kNoCuda{FLASHATTN_BACKEND_CUDA, "cuda",
                                  "configure with -DFLASHATTN_CUDA=ON to have it"};
const Backend &cuda_backend() {
  return kNoCuda;
}
#endif
#ifndef FLASHATTN_WITH_HIP
constexpr NotBuiltBackend kNoHip{FLASHATTN_BACKEND_HIP, "hip",
                                 "configure with -DFLASHATTN_HIP=ON to have it"};
const Backend &hip_backend() {
  return kNoHip;
}
#endif

using BackendGetter = const Backend &(*)();
constexpr BackendGetter kBackends[] = {cuda_backend, hip_backend, cpu_backend};

const Backend *g_test_backend = nullptr;

}  // namespace

int32_t registry_count() {
  return static_cast<int32_t>(std::size(kBackends));
}

const Backend &registry_at(int32_t index) {
  const Backend &backend = kBackends[index]();
  return g_test_backend != nullptr && g_test_backend->id() == backend.id() ? *g_test_backend : backend;
}

const Backend *registry_find(int32_t id) {
  for (int32_t index = 0; index < registry_count(); ++index) {
    const Backend &backend = registry_at(index);
    if (backend.id() == id) return &backend;
  }
  return nullptr;
}

void registry_set_test_backend(const Backend *backend) {
  g_test_backend = backend;
}

}  // namespace flashattn
