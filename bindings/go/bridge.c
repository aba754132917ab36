/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "bridge.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *text_of(const char *format, const char *path, const char *name) {
  const size_t size = strlen(format) + strlen(path) + strlen(name) + 1;
  char *text = malloc(size);
  if (text != NULL) snprintf(text, size, format, path, name);
  return text;
}

bridge_library_t *bridge_open(const char *path, char **why) {
  void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (module == NULL) {
    *why = text_of("%s%s", dlerror(), "");
    return NULL;
  }
  bridge_library_t *library = calloc(1, sizeof *library);
  if (library == NULL) {
    *why = text_of("%s: %s", path, "out of memory");
    return NULL;
  }
  /* The order of the struct; the version first, since the rest depends on it. */
  static const char *const kNames[] = {
      "flashattn_version",           "flashattn_version_string", "flashattn_last_error",
      "flashattn_last_driver_error", "flashattn_backend_count",  "flashattn_backend_info",
      "flashattn_device_info",       "flashattn_create",         "flashattn_destroy",
      "flashattn_handle_info",       "flashattn_plan_create",    "flashattn_plan_destroy",
      "flashattn_plan_info",         "flashattn_plan_reason",    "flashattn_workspace_init",
      "flashattn_forward",           "flashattn_attention",
  };
  enum { kCount = sizeof kNames / sizeof kNames[0] };
  _Static_assert(sizeof(bridge_library_t) == kCount * sizeof(void *), "one name for each function");
  for (int i = 0; i < kCount; ++i) {
    void *symbol = dlsym(module, kNames[i]);
    memcpy((char *)library + i * sizeof symbol, &symbol, sizeof symbol);
    if (symbol == NULL) {
      *why = text_of("%s has no function %s", path, kNames[i]);
      free(library);
      return NULL;
    }
    if (i == 0 && library->version() / 1000 != FLASHATTN_VERSION / 1000) {
      char is[96];
      const uint32_t version = library->version();
      snprintf(is, sizeof is, "%u.%u.%u; this binding needs %d.%d", version / 1000000, version / 1000 % 1000,
               version % 1000, FLASHATTN_VERSION_MAJOR, FLASHATTN_VERSION_MINOR);
      *why = text_of("%s is libflashattn %s", path, is);
      free(library);
      return NULL;
    }
  }
  return library;
}

static bridge_outcome_t outcome(const bridge_library_t *library, int32_t status) {
  bridge_outcome_t result = {status, 0, NULL};
  if (status != FLASHATTN_STATUS_OK) {
    result.driver_error = library->last_driver_error();
    result.text = strdup(library->last_error());
  }
  return result;
}

uint32_t bridge_version(const bridge_library_t *library) {
  return library->version();
}
const char *bridge_version_string(const bridge_library_t *library) {
  return library->version_string();
}
int32_t bridge_backend_count(const bridge_library_t *library) {
  return library->backend_count();
}

bridge_outcome_t bridge_backend_info(const bridge_library_t *library, int32_t index,
                                     flashattn_backend_info_t *info) {
  return outcome(library, library->backend_info(index, info));
}
bridge_outcome_t bridge_device_info(const bridge_library_t *library, int32_t backend, int32_t ordinal,
                                    flashattn_device_info_t *info) {
  return outcome(library, library->device_info(backend, ordinal, info));
}
bridge_outcome_t bridge_create(const bridge_library_t *library, const flashattn_options_t *options,
                               flashattn_handle_t **handle) {
  return outcome(library, library->create(options, handle));
}
void bridge_destroy(const bridge_library_t *library, flashattn_handle_t *handle) {
  library->destroy(handle);
}
bridge_outcome_t bridge_handle_info(const bridge_library_t *library, const flashattn_handle_t *handle,
                                    flashattn_handle_info_t *info) {
  return outcome(library, library->handle_info(handle, info));
}
bridge_outcome_t bridge_plan_create(const bridge_library_t *library, flashattn_handle_t *handle,
                                    const flashattn_problem_t *problem, flashattn_plan_t **plan) {
  return outcome(library, library->plan_create(handle, problem, plan));
}
void bridge_plan_destroy(const bridge_library_t *library, flashattn_plan_t *plan) {
  library->plan_destroy(plan);
}
bridge_outcome_t bridge_plan_info(const bridge_library_t *library, const flashattn_plan_t *plan,
                                  flashattn_plan_info_t *info) {
  return outcome(library, library->plan_info(plan, info));
}
const char *bridge_plan_reason(const bridge_library_t *library, const flashattn_plan_t *plan, int32_t index) {
  const char *reason = "";
  return library->plan_reason(plan, index, &reason) == FLASHATTN_STATUS_OK ? reason : "";
}
bridge_outcome_t bridge_workspace_init(const bridge_library_t *library, const flashattn_plan_t *plan,
                                       void *workspace, size_t workspace_size) {
  return outcome(library, library->workspace_init(plan, workspace, workspace_size, NULL));
}

/* In Go memory, or elsewhere. */
static void *either(void *pointer, uintptr_t address) {
  return pointer != NULL ? pointer : (void *)address;
}

bridge_outcome_t bridge_run(const bridge_call_t *b, uint8_t *workspace, uint8_t *q, uint8_t *k, uint8_t *v,
                            uint8_t *o, uint8_t *lse, uint8_t *cu_seqlens_q, uint8_t *cu_seqlens_kv,
                            uint8_t *seqused_q, uint8_t *seqused_kv, uint8_t *diag_offsets,
                            uint8_t *page_table, uint8_t *page_indptr, uint8_t *page_indices, uint8_t *bias,
                            uint8_t *alibi_slopes, uint8_t *sinks) {
  flashattn_call_t c = b->call;
  c.q.data = either(q, b->addresses[BRIDGE_Q]);
  c.k.data = either(k, b->addresses[BRIDGE_K]);
  c.v.data = either(v, b->addresses[BRIDGE_V]);
  c.o.data = either(o, b->addresses[BRIDGE_O]);
  c.lse.data = either(lse, b->addresses[BRIDGE_LSE]);
  c.cu_seqlens_q = either(cu_seqlens_q, b->addresses[BRIDGE_CU_SEQLENS_Q]);
  c.cu_seqlens_kv = either(cu_seqlens_kv, b->addresses[BRIDGE_CU_SEQLENS_KV]);
  c.seqused_q = either(seqused_q, b->addresses[BRIDGE_SEQUSED_Q]);
  c.seqused_kv = either(seqused_kv, b->addresses[BRIDGE_SEQUSED_KV]);
  c.diag_offsets = either(diag_offsets, b->addresses[BRIDGE_DIAG_OFFSETS]);
  c.page_table = either(page_table, b->addresses[BRIDGE_PAGE_TABLE]);
  c.page_indptr = either(page_indptr, b->addresses[BRIDGE_PAGE_INDPTR]);
  c.page_indices = either(page_indices, b->addresses[BRIDGE_PAGE_INDICES]);
  c.bias.data = either(bias, b->addresses[BRIDGE_BIAS]);
  c.alibi_slopes.data = either(alibi_slopes, b->addresses[BRIDGE_ALIBI_SLOPES]);
  c.sinks.data = either(sinks, b->addresses[BRIDGE_SINKS]);
  void *stream = (void *)b->stream;
  if (b->plan == NULL) return outcome(b->library, b->library->attention(b->handle, &b->problem, &c, stream));
  return outcome(b->library, b->library->forward(b->plan, &c, either(workspace, b->workspace),
                                                 b->workspace_size, stream));
}
