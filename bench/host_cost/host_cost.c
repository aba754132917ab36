/* SPDX-License-Identifier: Apache-2.0
 * What the library costs beside the arithmetic: loading it, opening a handle, and one call on a single query
 * and key.
 *
 *   host_cost LIBRARY [--check]     prints one JSON object; with --check exits 1 when a figure is ten times
 * its goal
 *
 * A C program that links no C++ library, so that the first load includes all the library needs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <flashattn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { kLoads = 20, kBatches = 200, kCallsPerBatch = 100, kHeadDim = 8 };

/* Goals, in seconds, for an idle machine. */
static const double kLoadGoal = 5e-3;
static const double kCallGoal = 2e-6;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare(const void *left, const void *right) {
  const double difference = *(const double *)left - *(const double *)right;
  return (difference > 0) - (difference < 0);
}

static double median(double *values, size_t count) {
  qsort(values, count, sizeof *values, compare);
  return values[count / 2];
}

static void *library;

static void fail(const char *text) {
  fprintf(stderr, "host_cost: %s\n", text);
  exit(1);
}

static void find(const char *name, void *function) {
  void *symbol = dlsym(library, name);
  if (symbol == NULL) fail(name);
  memcpy(function, &symbol, sizeof symbol);
}

static double load(const char *path) {
  const double begin = now();
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const double end = now();
  if (library == NULL) fail(dlerror());
  return end - begin;
}

static void must(flashattn_status_t status) {
  if (status == FLASHATTN_STATUS_OK) return;
  const char *(FLASHATTN_CALL * last_error)(void);
  find("flashattn_last_error", &last_error);
  fail(last_error());
}

/* Seconds; of the calls the median. */
typedef struct costs {
  double create;
  double forward;
  double attention;
} costs_t;

static costs_t call_costs(int num_threads) {
  flashattn_status_t(FLASHATTN_CALL * create)(const flashattn_options_t *, flashattn_handle_t **);
  void(FLASHATTN_CALL * destroy)(flashattn_handle_t *);
  flashattn_status_t(FLASHATTN_CALL * plan_create)(flashattn_handle_t *, const flashattn_problem_t *,
                                                   flashattn_plan_t **);
  void(FLASHATTN_CALL * plan_destroy)(flashattn_plan_t *);
  flashattn_status_t(FLASHATTN_CALL * plan_info)(const flashattn_plan_t *, flashattn_plan_info_t *);
  flashattn_status_t(FLASHATTN_CALL * contiguous)(const flashattn_problem_t *, flashattn_call_t *);
  flashattn_status_t(FLASHATTN_CALL * workspace_init)(const flashattn_plan_t *, void *, size_t, void *);
  flashattn_status_t(FLASHATTN_CALL * forward)(const flashattn_plan_t *, const flashattn_call_t *, void *,
                                               size_t, void *);
  flashattn_status_t(FLASHATTN_CALL * attention)(flashattn_handle_t *, const flashattn_problem_t *,
                                                 const flashattn_call_t *, void *);
  find("flashattn_create", &create);
  find("flashattn_destroy", &destroy);
  find("flashattn_plan_create", &plan_create);
  find("flashattn_plan_destroy", &plan_destroy);
  find("flashattn_plan_info", &plan_info);
  find("flashattn_call_contiguous", &contiguous);
  find("flashattn_workspace_init", &workspace_init);
  find("flashattn_forward", &forward);
  find("flashattn_attention", &attention);

  float q[kHeadDim] = {1};
  float k[kHeadDim] = {2};
  float v[kHeadDim] = {3};
  float o[kHeadDim];
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CPU;
  options.num_threads = num_threads;
  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  problem.dtype_q = problem.dtype_kv = FLASHATTN_DTYPE_F32;
  problem.num_heads_q = problem.num_heads_kv = 1;
  problem.head_dim = kHeadDim;
  problem.max_batch = problem.max_seqlen_q = problem.max_seqlen_kv = 1;
  flashattn_call_t call = FLASHATTN_CALL_INIT;
  call.batch = call.seqlen_q = call.seqlen_kv = 1;
  call.q.data = q;
  call.k.data = k;
  call.v.data = v;
  call.o.data = o;

  costs_t costs;
  flashattn_handle_t *handle = NULL;
  const double begin = now();
  must(create(&options, &handle));
  costs.create = now() - begin;
  must(contiguous(&problem, &call));
  flashattn_plan_t *plan = NULL;
  must(plan_create(handle, &problem, &plan));
  flashattn_plan_info_t info;
  info.struct_size = (uint32_t)sizeof info;
  must(plan_info(plan, &info));
  void *workspace = NULL;
  const size_t alignment =
      info.workspace_alignment < sizeof(void *) ? sizeof(void *) : info.workspace_alignment;
  if (info.workspace_size > 0 && posix_memalign(&workspace, alignment, info.workspace_size) != 0)
    fail("no memory");
  must(workspace_init(plan, workspace, info.workspace_size, NULL));

  double forwards[kBatches];
  double attentions[kBatches];
  for (int batch = 0; batch < kBatches; ++batch) {
    const double start = now();
    for (int n = 0; n < kCallsPerBatch; ++n) must(forward(plan, &call, workspace, info.workspace_size, NULL));
    const double middle = now();
    for (int n = 0; n < kCallsPerBatch; ++n) must(attention(handle, &problem, &call, NULL));
    forwards[batch] = (middle - start) / kCallsPerBatch;
    attentions[batch] = (now() - middle) / kCallsPerBatch;
  }
  costs.forward = median(forwards, kBatches);
  costs.attention = median(attentions, kBatches);
  plan_destroy(plan);
  free(workspace);
  destroy(handle);
  return costs;
}

int main(int argc, char **argv) {
  if (argc < 2) fail("usage: host_cost LIBRARY [--check]");
  struct stat file;
  if (stat(argv[1], &file) != 0) fail("cannot read the library");
  const double first_load = load(argv[1]);
  double loads[kLoads];
  for (int n = 0; n < kLoads; ++n) {
    dlclose(library);
    loads[n] = load(argv[1]);
  }
  const double reload = median(loads, kLoads);
  const costs_t one = call_costs(1);
  const costs_t all = call_costs(0);
  printf(
      "{\"library_bytes\": %lld, \"first_load_us\": %.1f, \"reload_us\": %.1f,\n"
      " \"one_thread\": {\"create_us\": %.1f, \"forward_ns\": %.0f, \"attention_ns\": %.0f},\n"
      " \"all_threads\": {\"create_us\": %.1f, \"forward_ns\": %.0f, \"attention_ns\": %.0f}}\n",
      (long long)file.st_size, first_load * 1e6, reload * 1e6, one.create * 1e6, one.forward * 1e9,
      one.attention * 1e9, all.create * 1e6, all.forward * 1e9, all.attention * 1e9);
  const int check = argc > 2 && strcmp(argv[2], "--check") == 0;
  return check &&
         (first_load > 10 * kLoadGoal || one.forward > 10 * kCallGoal || one.attention > 10 * kCallGoal);
}
