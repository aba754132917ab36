/* SPDX-License-Identifier: Apache-2.0
 * Attention over one key returns that key's V. Also compiled as C++. */
#include <flashattn.h>
#include <stdio.h>

enum { kHeadDim = 4 };

int main(void) {
  float q[kHeadDim] = {1, 2, 3, 4};
  float k[kHeadDim] = {5, 6, 7, 8};
  float v[kHeadDim] = {9, 10, 11, 12};
  float o[kHeadDim] = {0, 0, 0, 0};

  flashattn_handle_t *handle = NULL;
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CPU;
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

  flashattn_status_t status = flashattn_create(&options, &handle);
  if (status == FLASHATTN_STATUS_OK) status = flashattn_call_contiguous(&problem, &call);
  if (status == FLASHATTN_STATUS_OK) status = flashattn_attention(handle, &problem, &call, NULL);
  flashattn_destroy(handle);
  if (status != FLASHATTN_STATUS_OK) {
    fprintf(stderr, "%s: %s\n", flashattn_status_string(status), flashattn_last_error());
    return 1;
  }
  for (int i = 0; i < kHeadDim; ++i) {
    if (o[i] != v[i]) return 1;
  }
  printf("libflashattn %s\n", flashattn_version_string());
  return 0;
}
