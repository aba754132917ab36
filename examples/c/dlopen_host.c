/* SPDX-License-Identifier: Apache-2.0
 * A program that opens libflashattn at run time, as an engine's plug-in loader would: it finds the library (docs/loading.md),
 * checks its version, tells what is there, decodes one token over a paged cache, and shows what an error looks like.
 *
 *   cc -std=c99 -Iinclude examples/c/dlopen_host.c -o dlopen_host -ldl -lm && ./dlopen_host [LIBRARY] */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <flashattn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The functions this program calls, of the one copy that it opened. */
typedef struct library {
  uint32_t (*version)(void);
  const char *(*last_error)(void);
  int32_t (*backend_count)(void);
  flashattn_status_t (*backend_info)(int32_t, flashattn_backend_info_t *);
  flashattn_status_t (*create)(const flashattn_options_t *, flashattn_handle_t **);
  void (*destroy)(flashattn_handle_t *);
  flashattn_status_t (*call_contiguous)(const flashattn_problem_t *, flashattn_call_t *);
  flashattn_status_t (*attention)(flashattn_handle_t *, const flashattn_problem_t *, const flashattn_call_t *,
                                  void *);
} library_t;

/* dlsym gives an object pointer, and C99 has no cast from one to a function: the bytes are copied. */
static int find(void *module, const char *name, void *function) {
  void *symbol = dlsym(module, name);
  if (symbol == NULL) fprintf(stderr, "the library has no function %s\n", name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

/* Rule 3: beside the program, or in ../lib. path has room for size bytes; 0 when there is no such file. */
static int packaged(const char *tail, char *path, size_t size) {
  const ssize_t length = readlink("/proc/self/exe", path, size - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  char *slash = strrchr(path, '/');
  if (slash == NULL || (size_t)(slash - path) + strlen(tail) + 1 > size) return 0;
  strcpy(slash, tail);
  return access(path, F_OK) == 0;
}

static int open_library(const char *named, library_t *library) {
  char path[4096];
  const char *name = named;
  if (name == NULL) name = getenv("FLASHATTN_LIBRARY");
  if (name == NULL || name[0] == '\0') {
    name = "libflashattn.so.0";
    if (packaged("/libflashattn.so.0", path, sizeof path)) {
      name = path;
    } else if (packaged("/../lib/libflashattn.so.0", path, sizeof path)) {
      name = path;
    }
  }
  void *module = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (module == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 0;
  }
  if (!find(module, "flashattn_version", &library->version)) return 0;
  const uint32_t version = library->version();
  if (version / 1000 != FLASHATTN_VERSION / 1000) {
    fprintf(stderr, "%s is libflashattn %u.%u.%u; this program needs %d.%d\n", name, version / 1000000,
            version / 1000 % 1000, version % 1000, FLASHATTN_VERSION_MAJOR, FLASHATTN_VERSION_MINOR);
    return 0;
  }
  return find(module, "flashattn_last_error", &library->last_error) &&
         find(module, "flashattn_backend_count", &library->backend_count) &&
         find(module, "flashattn_backend_info", &library->backend_info) &&
         find(module, "flashattn_create", &library->create) &&
         find(module, "flashattn_destroy", &library->destroy) &&
         find(module, "flashattn_call_contiguous", &library->call_contiguous) &&
         find(module, "flashattn_attention", &library->attention);
}

enum { kHeadsQ = 8, kHeadsKv = 2, kHeadDim = 64, kPageSize = 16, kPages = 8, kKeys = 50 };

static float k_pool[kPages * kPageSize * kHeadsKv * kHeadDim];
static float v_pool[kPages * kPageSize * kHeadsKv * kHeadDim];

/* One new token against 50 cached ones on four pages of the pool. Every value is 2, so O is too. */
static int decode(const library_t *library, flashattn_handle_t *handle) {
  static float q[kHeadsQ * kHeadDim], o[kHeadsQ * kHeadDim];
  const int32_t pages[] = {6, 1, 3, 4}, lengths[] = {kKeys};
  for (size_t i = 0; i < sizeof v_pool / sizeof v_pool[0]; ++i) {
    k_pool[i] = sinf((float)i);
    v_pool[i] = 2;
  }
  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  problem.dtype_q = problem.dtype_kv = FLASHATTN_DTYPE_F32;
  problem.layout_kv = FLASHATTN_LAYOUT_PAGED;
  problem.num_heads_q = kHeadsQ, problem.num_heads_kv = kHeadsKv, problem.head_dim = kHeadDim;
  problem.max_batch = problem.max_seqlen_q = 1, problem.max_seqlen_kv = kPages * kPageSize;
  problem.page_size = kPageSize, problem.max_pages = kPages;
  problem.features = FLASHATTN_FEATURE_SEQUSED_KV;
  problem.causal = 1;
  flashattn_call_t call = FLASHATTN_CALL_INIT;
  call.batch = call.seqlen_q = 1, call.num_pages = kPages;
  call.q.data = q, call.k.data = k_pool, call.v.data = v_pool, call.o.data = o;
  call.seqused_kv = lengths;
  call.page_table = pages, call.page_table_width = 4;
  if (library->call_contiguous(&problem, &call) != FLASHATTN_STATUS_OK ||
      library->attention(handle, &problem, &call, NULL) != FLASHATTN_STATUS_OK) {
    fprintf(stderr, "%s\n", library->last_error());
    return 0;
  }
  for (int i = 0; i < kHeadsQ * kHeadDim; ++i) {
    if (fabsf(o[i] - 2) > 1e-5F) return 0;
  }
  printf("decoded one token over %d keys on pages 6 1 3 4: o[0] = %g\n", kKeys, (double)o[0]);

  problem.num_heads_kv = 3;
  if (library->attention(handle, &problem, &call, NULL) == FLASHATTN_STATUS_OK) return 0;
  printf("a wrong problem is refused: %s\n", library->last_error());
  return 1;
}

int main(int argc, char **argv) {
  library_t library;
  if (!open_library(argc > 1 ? argv[1] : NULL, &library)) return 1;
  for (int32_t i = 0; i < library.backend_count(); ++i) {
    flashattn_backend_info_t info = {0};
    info.struct_size = sizeof info;
    if (library.backend_info(i, &info) != FLASHATTN_STATUS_OK) return 1;
    printf("%-5s %d device%s %s\n", info.name, info.device_count, info.device_count == 1 ? "" : "s",
           info.reason);
  }
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CPU;
  flashattn_handle_t *handle = NULL;
  if (library.create(&options, &handle) != FLASHATTN_STATUS_OK) {
    fprintf(stderr, "%s\n", library.last_error());
    return 1;
  }
  const int good = decode(&library, handle);
  library.destroy(handle);
  return good ? 0 : 1;
}
