// SPDX-License-Identifier: Apache-2.0

// Callcost measures what a call through the Go binding costs over the C call: one query, one key, one head, f32, one
// thread. Both in turns, so that they see the same machine; short batches, so that few are interrupted on a busy one.
package main

// #cgo CFLAGS: -std=gnu99 -O2 -I${SRCDIR}/../../../../include
// #cgo LDFLAGS: -ldl
// #define _GNU_SOURCE
// #include <dlfcn.h>
// #include <flashattn.h>
// #include <stdlib.h>
// #include <time.h>
//
// static __typeof__(flashattn_forward) *forward;
// static __typeof__(flashattn_attention) *attention;
// static flashattn_handle_t *handle;
// static flashattn_plan_t *plan;
// static void *workspace;
// static size_t workspace_size;
// static float q[8], k[8], v[8], o[8];
// static flashattn_problem_t problem = FLASHATTN_PROBLEM_INIT;
// static flashattn_call_t call = FLASHATTN_CALL_INIT;
//
// static int open_library(const char *path) {
//   void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
//   if (module == NULL) return 0;
//   __typeof__(flashattn_create) *create = dlsym(module, "flashattn_create");
//   __typeof__(flashattn_plan_create) *plan_create = dlsym(module, "flashattn_plan_create");
//   __typeof__(flashattn_plan_info) *plan_info = dlsym(module, "flashattn_plan_info");
//   __typeof__(flashattn_workspace_init) *workspace_init = dlsym(module, "flashattn_workspace_init");
//   forward = dlsym(module, "flashattn_forward");
//   attention = dlsym(module, "flashattn_attention");
//   flashattn_options_t options = FLASHATTN_OPTIONS_INIT;
//   options.backend = FLASHATTN_BACKEND_CPU, options.num_threads = 1;
//   problem.dtype_q = problem.dtype_kv = FLASHATTN_DTYPE_F32;
//   problem.num_heads_q = problem.num_heads_kv = 1, problem.head_dim = 8;
//   problem.max_batch = problem.max_seqlen_q = problem.max_seqlen_kv = 1;
//   call.batch = call.seqlen_q = call.seqlen_kv = 1;
//   flashattn_tensor_t *tensors[] = {&call.q, &call.k, &call.v, &call.o};
//   float *data[] = {q, k, v, o};
//   for (int i = 0; i < 4; ++i) {
//     flashattn_tensor_t tensor = {data[i], 8, 8, 8};
//     *tensors[i] = tensor;
//   }
//   flashattn_plan_info_t info = {sizeof info};
//   if (create(&options, &handle) != 0 || plan_create(handle, &problem, &plan) != 0 || plan_info(plan, &info) != 0) return 0;
//   workspace_size = info.workspace_size;
//   if (workspace_size != 0 && posix_memalign(&workspace, info.workspace_alignment, workspace_size) != 0) return 0;
//   return workspace_init(plan, workspace, workspace_size, NULL) == 0;
// }
//
// static double nanoseconds(int calls, int with_plan) {
//   struct timespec begin, end;
//   clock_gettime(CLOCK_MONOTONIC, &begin);
//   for (int i = 0; i < calls; ++i) {
//     if (with_plan) {
//       forward(plan, &call, workspace, workspace_size, NULL);
//     } else {
//       attention(handle, &problem, &call, NULL);
//     }
//   }
//   clock_gettime(CLOCK_MONOTONIC, &end);
//   return ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / calls;
// }
import "C"

import (
	"fmt"
	"os"
	"sort"
	"time"

	"flashattn"
)

const (
	batches       = 4001
	callsPerBatch = 50
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func report(name string, withPlan C.int, call func() error) {
	var c, inGo []float64
	for i := 0; i < batches; i++ {
		c = append(c, float64(C.nanoseconds(callsPerBatch, withPlan)))
		begin := time.Now()
		for n := 0; n < callsPerBatch; n++ {
			must(call())
		}
		inGo = append(inGo, float64(time.Since(begin).Nanoseconds())/callsPerBatch)
	}
	sort.Float64s(c)
	sort.Float64s(inGo)
	m := batches / 2
	fmt.Printf("%-10s C %6.0f ns   Go %6.0f ns   +%.0f ns\n", name, c[m], inGo[m], inGo[m]-c[m])
}

func main() {
	path := os.Getenv("FLASHATTN_LIBRARY")
	if path == "" {
		path = "libflashattn.so.0"
	}
	if C.open_library(C.CString(path)) == 0 {
		must(fmt.Errorf("cannot use %s", path))
	}
	q, k, v, o := make([]float32, 8), make([]float32, 8), make([]float32, 8), make([]float32, 8)
	handle, err := flashattn.NewHandle(flashattn.Options{Backend: flashattn.CPU, NumThreads: 1})
	must(err)
	call := &flashattn.Call{Q: flashattn.Host(q, 1, 1, 1, 8), K: flashattn.Host(k, 1, 1, 1, 8),
		V: flashattn.Host(v, 1, 1, 1, 8), O: flashattn.Host(o, 1, 1, 1, 8)}
	problem := flashattn.ProblemOf(call)
	plan, err := handle.Plan(problem)
	must(err)
	workspace, err := plan.NewWorkspace()
	must(err)
	report("Forward", 1, func() error { return plan.Forward(call, workspace) })
	report("Attention", 0, func() error { return handle.Attention(&problem, call) })
}
