/* SPDX-License-Identifier: Apache-2.0
 * A C program that opens the library the way a plug-in host does: dlopen, run, dlclose, again; from many
 * threads; and on both sides of a fork. Usage: dlopen_test LIBRARY [--may-stay]. With --may-stay the library
 * may remain mapped after dlclose, as it does under a sanitizer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tiny.h"

enum { kThreads = 8, kRounds = 3 };

static int load(void *library, const char *name, void *function, size_t size) {
  void *symbol = dlsym(library, name);
  if (symbol == NULL) {
    printf("%s is missing\n", name);
    return 1;
  }
  memcpy(function, &symbol, size);
  return 0;
}

static void *open_library(const char *path, tiny_api_t *api) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    printf("dlopen: %s\n", dlerror());
    return NULL;
  }
  int missing = 0;
  missing += load(library, "flashattn_create", &api->create, sizeof api->create);
  missing += load(library, "flashattn_destroy", &api->destroy, sizeof api->destroy);
  missing += load(library, "flashattn_call_contiguous", &api->contiguous, sizeof api->contiguous);
  missing += load(library, "flashattn_attention", &api->attention, sizeof api->attention);
  missing += load(library, "flashattn_last_error", &api->last_error, sizeof api->last_error);
  return missing == 0 ? library : NULL;
}

typedef struct shared_run {
  const tiny_api_t *api;
  flashattn_handle_t *handle;
} shared_run_t;

/* Half of the threads share a handle, all open one of their own. */
static void *thread_main(void *argument) {
  const shared_run_t *run = (const shared_run_t *)argument;
  int wrong = 0;
  for (int round = 0; round < kRounds; ++round) {
    wrong += tiny_run(run->api, run->handle);
    wrong += tiny_attention(run->api, 2);
  }
  return wrong == 0 ? NULL : argument;
}

static int run_threads(const tiny_api_t *api) {
  shared_run_t run = {api, NULL};
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CPU;
  options.num_threads = 2;
  if (api->create(&options, &run.handle) != FLASHATTN_STATUS_OK) return 1;
  pthread_t threads[kThreads];
  int wrong = 0;
  for (int i = 0; i < kThreads; ++i) {
    if (pthread_create(&threads[i], NULL, thread_main, &run) != 0) return 1;
  }
  for (int i = 0; i < kThreads; ++i) {
    void *result = NULL;
    pthread_join(threads[i], &result);
    wrong += result != NULL;
  }
  api->destroy(run.handle);
  return wrong;
}

/* The parent has used the library; the child opens handles of its own, and so does the parent afterwards. */
static int run_fork(const tiny_api_t *api) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(tiny_attention(api, 2) == 0 ? 0 : 1);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 1;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    printf("the forked child failed with status %d\n", status);
    return 1;
  }
  return tiny_attention(api, 2);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  const int may_stay = argc > 2 && strcmp(argv[2], "--may-stay") == 0;
  int failures = 0;
  for (int round = 0; round < kRounds; ++round) {
    tiny_api_t api;
    void *library = open_library(argv[1], &api);
    if (library == NULL) return 1;
    failures += tiny_attention(&api, 1);
    failures += tiny_attention(&api, 4);
    failures += run_threads(&api);
    failures += run_fork(&api);
    dlclose(library);
    void *left = dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);
    if (left != NULL && !may_stay) {
      printf("round %d: still loaded after dlclose\n", round);
      ++failures;
    }
    if (left != NULL) dlclose(left);
  }
  return failures != 0;
}
