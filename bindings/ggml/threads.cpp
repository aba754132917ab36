// SPDX-License-Identifier: Apache-2.0
#include "bindings/ggml/threads.h"

#include <dlfcn.h>

namespace flashattn::ggml {
namespace {

// What compilers turn "omp parallel" into (libgomp's ABI, which LLVM's libomp has as well), looked up so that the
// plug-in joins the run-time library that the engine has loaded and needs none itself.
struct OpenMp {
  void (*parallel)(void (*body)(void *), void *data, unsigned num_threads, unsigned flags);
  int (*thread_num)();
  int (*num_threads)();
};
OpenMp openmp;

struct Loop {
  int32_t count;
  flashattn_task_fn task;
  void *context;
};

// A team may be smaller than asked for.
void run_share(void *data) {
  const Loop &loop = *static_cast<Loop *>(data);
  const int32_t threads = openmp.num_threads();
  for (int32_t i = openmp.thread_num(); i < loop.count; i += threads) loop.task(loop.context, i);
}

void FLASHATTN_CALL parallel_for(void *, int32_t count, flashattn_task_fn task, void *context) {
  Loop loop = {count, task, context};
  openmp.parallel(run_share, &loop, static_cast<unsigned>(count), 0);
}

template <typename Function>
bool find(void *library, const char *name, Function *function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool find_openmp() {
  for (const char *name : {"libgomp.so.1", "libomp.so.5", "libomp.so"}) {
    void *library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (library != nullptr && find(library, "GOMP_parallel", &openmp.parallel) &&
        find(library, "omp_get_thread_num", &openmp.thread_num) &&
        find(library, "omp_get_num_threads", &openmp.num_threads)) {
      return true;
    }
  }
  return false;
}

}  // namespace

flashattn_parallel_for_fn engine_parallel_for(const Engine &engine) {
  return engine.openmp && find_openmp() ? parallel_for : nullptr;
}

}  // namespace flashattn::ggml
