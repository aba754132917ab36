/* SPDX-License-Identifier: Apache-2.0
 * A causal attention of a few rows with its answer computed here in double: enough to see that a library that
 * was linked or opened in some new way computes. Header-only C99; also compiled as C++. */
#ifndef FLASHATTN_TESTS_ABI_TINY_H_
#define FLASHATTN_TESTS_ABI_TINY_H_

#include <flashattn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { kTinyRows = 19, kTinyHeads = 2, kTinyDim = 5, kTinyCount = kTinyRows * kTinyHeads * kTinyDim };

/* The functions a run needs, as linked or as found by dlsym. */
typedef struct tiny_api {
  flashattn_status_t(FLASHATTN_CALL *create)(const flashattn_options_t *, flashattn_handle_t **);
  void(FLASHATTN_CALL *destroy)(flashattn_handle_t *);
  flashattn_status_t(FLASHATTN_CALL *contiguous)(const flashattn_problem_t *, flashattn_call_t *);
  flashattn_status_t(FLASHATTN_CALL *attention)(flashattn_handle_t *, const flashattn_problem_t *,
                                                const flashattn_call_t *, void *);
  const char *(FLASHATTN_CALL *last_error)(void);
} tiny_api_t;

/* Element i of input number `tensor`: some number in [0.1, 1.1). */
static float tiny_input(int tensor, int i) {
  return 0.1F + (float)((i * 37 + tensor * 101) % 97) / 97.0F;
}

/* The answer for query row i, head h, element e. */
static double tiny_expected(int i, int h, int e) {
  double denominator = 0;
  double sum = 0;
  for (int j = 0; j <= i; ++j) {
    double score = 0;
    for (int d = 0; d < kTinyDim; ++d) {
      score += (double)tiny_input(0, (i * kTinyHeads + h) * kTinyDim + d) *
               (double)tiny_input(1, (j * kTinyHeads + h) * kTinyDim + d);
    }
    const double weight = exp(score / sqrt((double)kTinyDim));
    denominator += weight;
    sum += weight * (double)tiny_input(2, (j * kTinyHeads + h) * kTinyDim + e);
  }
  return sum / denominator;
}

/* Runs on an open handle. Returns 0 when every element is right. */
static int tiny_run(const tiny_api_t *api, flashattn_handle_t *handle) {
  float q[kTinyCount];
  float k[kTinyCount];
  float v[kTinyCount];
  float o[kTinyCount];
  for (int i = 0; i < kTinyCount; ++i) {
    q[i] = tiny_input(0, i);
    k[i] = tiny_input(1, i);
    v[i] = tiny_input(2, i);
    o[i] = NAN;
  }
  flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
  problem.dtype_q = problem.dtype_kv = FLASHATTN_DTYPE_F32;
  problem.num_heads_q = problem.num_heads_kv = kTinyHeads;
  problem.head_dim = kTinyDim;
  problem.max_batch = 1;
  problem.max_seqlen_q = problem.max_seqlen_kv = kTinyRows;
  problem.causal = 1;
  flashattn_call_t call = FLASHATTN_CALL_INIT;
  call.batch = 1;
  call.seqlen_q = call.seqlen_kv = kTinyRows;
  call.q.data = q;
  call.k.data = k;
  call.v.data = v;
  call.o.data = o;
  if (api->contiguous(&problem, &call) != FLASHATTN_STATUS_OK ||
      api->attention(handle, &problem, &call, NULL) != FLASHATTN_STATUS_OK) {
    printf("tiny attention failed: %s\n", api->last_error());
    return 1;
  }
  int wrong = 0;
  for (int i = 0; i < kTinyRows; ++i) {
    for (int h = 0; h < kTinyHeads; ++h) {
      for (int e = 0; e < kTinyDim; ++e) {
        const double got = (double)o[(i * kTinyHeads + h) * kTinyDim + e];
        if (!(fabs(got - tiny_expected(i, h, e)) < 1e-5)) ++wrong;
      }
    }
  }
  if (wrong != 0) printf("tiny attention: %d of %d elements are wrong\n", wrong, kTinyCount);
  return wrong;
}

/* Opens a CPU handle of num_threads threads, runs, and closes it. */
static int tiny_attention(const tiny_api_t *api, int num_threads) {
  flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
  options.backend = FLASHATTN_BACKEND_CPU;
  options.num_threads = num_threads;
  flashattn_handle_t *handle = NULL;
  if (api->create(&options, &handle) != FLASHATTN_STATUS_OK) {
    printf("flashattn_create failed: %s\n", api->last_error());
    return 1;
  }
  const int wrong = tiny_run(api, handle);
  api->destroy(handle);
  return wrong;
}

#endif /* FLASHATTN_TESTS_ABI_TINY_H_ */
