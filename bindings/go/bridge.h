/* SPDX-License-Identifier: Apache-2.0
 * What Go calls: functions of one opened library, each with its error in the same C call, so that the thread that failed is
 * asked whatever the Go scheduler does; and tensors as arguments of their own, because a struct in Go memory may not hold
 * Go pointers when it is handed to C. */
#ifndef FLASHATTN_GO_BRIDGE_H_
#define FLASHATTN_GO_BRIDGE_H_

#include <flashattn.h>

typedef struct bridge_library {
  __typeof__(flashattn_version) *version;
  __typeof__(flashattn_version_string) *version_string;
  __typeof__(flashattn_last_error) *last_error;
  __typeof__(flashattn_last_driver_error) *last_driver_error;
  __typeof__(flashattn_backend_count) *backend_count;
  __typeof__(flashattn_backend_info) *backend_info;
  __typeof__(flashattn_device_info) *device_info;
  __typeof__(flashattn_create) *create;
  __typeof__(flashattn_destroy) *destroy;
  __typeof__(flashattn_handle_info) *handle_info;
  __typeof__(flashattn_plan_create) *plan_create;
  __typeof__(flashattn_plan_destroy) *plan_destroy;
  __typeof__(flashattn_plan_info) *plan_info;
  __typeof__(flashattn_plan_reason) *plan_reason;
  __typeof__(flashattn_workspace_init) *workspace_init;
  __typeof__(flashattn_forward) *forward;
  __typeof__(flashattn_attention) *attention;
} bridge_library_t;

/* Opens path; NULL and a text to free in *why when that fails. The library stays open. */
bridge_library_t *bridge_open(const char *path, char **why);

/* text is NULL with status 0, else to free. */
typedef struct bridge_outcome {
  int32_t status;
  int32_t driver_error;
  char *text;
} bridge_outcome_t;

uint32_t bridge_version(const bridge_library_t *library);
const char *bridge_version_string(const bridge_library_t *library);
int32_t bridge_backend_count(const bridge_library_t *library);
bridge_outcome_t bridge_backend_info(const bridge_library_t *library, int32_t index,
                                     flashattn_backend_info_t *info);
bridge_outcome_t bridge_device_info(const bridge_library_t *library, int32_t backend, int32_t ordinal,
                                    flashattn_device_info_t *info);
bridge_outcome_t bridge_create(const bridge_library_t *library, const flashattn_options_t *options,
                               flashattn_handle_t **handle);
void bridge_destroy(const bridge_library_t *library, flashattn_handle_t *handle);
bridge_outcome_t bridge_handle_info(const bridge_library_t *library, const flashattn_handle_t *handle,
                                    flashattn_handle_info_t *info);
bridge_outcome_t bridge_plan_create(const bridge_library_t *library, flashattn_handle_t *handle,
                                    const flashattn_problem_t *problem, flashattn_plan_t **plan);
void bridge_plan_destroy(const bridge_library_t *library, flashattn_plan_t *plan);
bridge_outcome_t bridge_plan_info(const bridge_library_t *library, const flashattn_plan_t *plan,
                                  flashattn_plan_info_t *info);
const char *bridge_plan_reason(const bridge_library_t *library, const flashattn_plan_t *plan, int32_t index);
bridge_outcome_t bridge_workspace_init(const bridge_library_t *library, const flashattn_plan_t *plan,
                                       void *workspace, size_t workspace_size);

/* The pointers of a call: in Go memory as arguments, elsewhere as numbers in addresses, in this order. */
enum {
  BRIDGE_Q,
  BRIDGE_K,
  BRIDGE_V,
  BRIDGE_O,
  BRIDGE_LSE,
  BRIDGE_CU_SEQLENS_Q,
  BRIDGE_CU_SEQLENS_KV,
  BRIDGE_SEQUSED_Q,
  BRIDGE_SEQUSED_KV,
  BRIDGE_DIAG_OFFSETS,
  BRIDGE_PAGE_TABLE,
  BRIDGE_PAGE_INDPTR,
  BRIDGE_PAGE_INDICES,
  BRIDGE_BIAS,
  BRIDGE_ALIBI_SLOPES,
  BRIDGE_SINKS,
  BRIDGE_COUNT
};

/* One call in C memory, which Go fills anew each time: a plan, or a handle and a problem. */
typedef struct bridge_call {
  const bridge_library_t *library;
  const flashattn_plan_t *plan;
  flashattn_handle_t *handle;
  flashattn_problem_t problem;
  flashattn_call_t call; /* all pointers NULL */
  uintptr_t addresses[BRIDGE_COUNT];
  uintptr_t workspace; /* where it is not in Go memory */
  size_t workspace_size;
  uintptr_t stream;
} bridge_call_t;

/* Memory of Go slices is passed as bytes: cgo need not look for pointers in those. */
bridge_outcome_t bridge_run(const bridge_call_t *b, uint8_t *workspace, uint8_t *q, uint8_t *k, uint8_t *v,
                            uint8_t *o, uint8_t *lse, uint8_t *cu_seqlens_q, uint8_t *cu_seqlens_kv,
                            uint8_t *seqused_q, uint8_t *seqused_kv, uint8_t *diag_offsets,
                            uint8_t *page_table, uint8_t *page_indptr, uint8_t *page_indices, uint8_t *bias,
                            uint8_t *alibi_slopes, uint8_t *sinks);

#endif /* FLASHATTN_GO_BRIDGE_H_ */
