// SPDX-License-Identifier: Apache-2.0

package flashattn

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

func cpu(t testing.TB) *Handle {
	t.Helper()
	handle, err := NewHandle(Options{Backend: CPU, NumThreads: 1})
	if err != nil {
		t.Fatal(err)
	}
	return handle
}

// Two sequences of 5 queries and keys, 4 heads over 2, dimension 8.
type tensors struct{ q, k, v, o []float32 }

func newTensors() *tensors {
	fill := func(n int, value float32) []float32 {
		data := make([]float32, n)
		for i := range data {
			data[i] = value
		}
		return data
	}
	return &tensors{fill(320, 0.5), fill(160, 0.25), fill(160, 1.5), fill(320, 0)}
}

func (x *tensors) call() *Call {
	return &Call{Q: Host(x.q, 2, 5, 4, 8), K: Host(x.k, 2, 5, 2, 8), V: Host(x.v, 2, 5, 2, 8), O: Host(x.o, 2, 5, 4, 8)}
}

func refusal(t *testing.T, problem Problem, call *Call) string {
	t.Helper()
	handle := cpu(t)
	defer handle.Close()
	err := handle.Attention(&problem, call)
	if err == nil {
		t.Fatal("accepted")
	}
	if e := err.(*Error); e.Status != InvalidArgument {
		t.Fatalf("status %d: %s", e.Status, e.Text)
	}
	return err.Error()
}

func TestPointersPassThroughAndForwardAllocatesNothing(t *testing.T) {
	x := newTensors()
	call := x.call()
	for i, pair := range [][2]unsafe.Pointer{
		{unsafe.Pointer(call.Q.host), unsafe.Pointer(&x.q[0])}, {unsafe.Pointer(call.K.host), unsafe.Pointer(&x.k[0])},
		{unsafe.Pointer(call.V.host), unsafe.Pointer(&x.v[0])}, {unsafe.Pointer(call.O.host), unsafe.Pointer(&x.o[0])}} {
		if pair[0] != pair[1] {
			t.Fatalf("tensor %d was copied", i)
		}
	}
	problem := ProblemOf(call)
	problem.Causal = true
	plan, err := cpu(t).Plan(problem)
	if err != nil {
		t.Fatal(err)
	}
	workspace, err := plan.NewWorkspace()
	if err != nil {
		t.Fatal(err)
	}
	allocations := testing.AllocsPerRun(10, func() {
		if err := plan.Forward(call, workspace); err != nil {
			t.Fatal(err)
		}
	})
	if allocations != 0 {
		t.Fatalf("%g allocations", allocations)
	}
	for _, value := range x.o {
		if value != 1.5 {
			t.Fatalf("O holds %g", value)
		}
	}
}

func TestPlansOutliveHandlesAndServeManyGoroutines(t *testing.T) {
	handle := cpu(t)
	problem := ProblemOf(newTensors().call())
	plan, err := handle.Plan(problem)
	if err != nil {
		t.Fatal(err)
	}
	handle.Close()
	handle.Close()
	if _, err := handle.Plan(problem); err == nil || err.Error() != "the handle is closed" {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			x := newTensors()
			workspace, err := plan.NewWorkspace()
			for n := 0; n < 20 && err == nil; n++ {
				err = plan.Forward(x.call(), workspace)
			}
			if err != nil || x.o[319] != 1.5 {
				t.Error(err, x.o[319])
			}
		}()
	}
	group.Wait()
	plan.Close()
	plan.Close()
	if _, err := plan.NewWorkspace(); err == nil || err.Error() != "the plan is closed" {
		t.Fatal(err)
	}
}

func TestUnreachableHandlesAndPlansAreGivenBack(t *testing.T) {
	problem := ProblemOf(newTensors().call())
	for i := 0; i < 50; i++ {
		plan, err := cpu(t).Plan(problem)
		if err != nil {
			t.Fatal(err)
		}
		_ = plan
		if i%10 == 9 {
			runtime.GC() // runs finalizers while others are made
		}
	}
}

func TestErrorsAreThoseOfTheThreadThatFailed(t *testing.T) {
	handle := cpu(t)
	var group sync.WaitGroup
	for i := 1; i <= 16; i++ {
		i := i
		group.Add(1)
		go func() {
			defer group.Done()
			for n := 0; n < 50; n++ {
				problem := ProblemOf(newTensors().call())
				problem.Softcap = float32(-i)
				_, err := handle.Plan(problem)
				if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("softcap is %d;", -i)) {
					t.Errorf("%d: %v", i, err)
				}
				runtime.Gosched()
			}
		}()
	}
	group.Wait()
	_, err := NewHandle(Options{Backend: CPU, Device: 7})
	if err == nil || err.(*Error).Status != InvalidDevice || err.(*Error).DriverError != 0 {
		t.Fatal(err)
	}
}

func TestTensorsMustFitAndAgree(t *testing.T) {
	x := newTensors()
	problem := ProblemOf(x.call())
	half := make([]Float16, 160)
	for _, row := range []struct {
		change func(*Call)
		text   string
	}{
		{func(c *Call) { c.K = Host(x.k[1:], 2, 5, 2, 8) }, "k has elements 159; what shape and strides need is 160"},
		{func(c *Call) { c.V = Host(half, 2, 5, 2, 8) }, "v has dtype 2; dtype_kv is 1"},
		{func(c *Call) { c.Q = Host(x.q, 2, 5, 2, 16) }, "q has heads 2; num_heads_q is 4"},
		{func(c *Call) { c.O = Host(x.o, 2, 5, 4, 7) }, "o has dim 7; head_dim_v is 8"},
		{func(c *Call) { c.O = Host(x.o, 2, 4, 4, 8) }, "o has seqlen 4; that of q is 5"},
		{func(c *Call) { c.V = Host(x.v, 1, 5, 2, 8) }, "v has batch 1; that of k is 2"},
		{func(c *Call) { c.K, c.V = Host(x.k, 1, 5, 2, 8), Host(x.v, 1, 5, 2, 8) }, "k has batch 1; that of the call is 2"},
		{func(c *Call) { c.LSE = Host(x.q[:39], 2, 5, 4, 1) }, "lse has elements 39; what shape and strides need is 40"},
	} {
		call := x.call()
		row.change(call)
		if text := refusal(t, problem, call); text != row.text {
			t.Errorf("%q, must be %q", text, row.text)
		}
	}
	problem.Kernel = strings.Repeat("x", 70)
	if text := refusal(t, problem, x.call()); !strings.Contains(text, "NUL within its 64 bytes") {
		t.Error(text)
	}
}

func TestListsMustBeAsLongAsTheBatchAndTheirStridesNeed(t *testing.T) {
	x := newTensors()
	one, table, three := []int32{5}, []int32{0, 1, 2}, []float32{1, 1, 1}
	for _, row := range []struct {
		change func(*Call)
		text   string
	}{
		{func(c *Call) { c.SeqUsedKV = Int32(one) }, "seqused_kv has elements 1;"},
		{func(c *Call) { c.SeqUsedQ = Int32(one) }, "seqused_q has elements 1;"},
		{func(c *Call) { c.DiagOffsets = Int32(one) }, "diag_offsets has elements 1;"},
		{func(c *Call) { c.PageTable, c.PageTableWidth, c.PageTableStride = Int32(table), 2, 2 }, "page_table has elements 3;"},
		{func(c *Call) { c.PageIndptr, c.PageIndices = Int32([]int32{0, 1}), Int32(table) }, "page_indptr has elements 2;"},
		{func(c *Call) { c.PageIndptr, c.PageIndices = Int32([]int32{0, 1, 4}), Int32(table) }, "page_indices has elements 3;"},
		{func(c *Call) { c.AlibiSlopes = Heads(three) }, "alibi_slopes has elements 3;"},
		{func(c *Call) { c.Sinks = Heads(three) }, "sinks has elements 3;"},
		{func(c *Call) { c.Bias = HostBias(x.q[:24], [4]int{0, 0, 5, 1}) }, "bias has elements 24;"},
		{func(c *Call) { c.CuSeqlensQ, c.CuSeqlensKV = Int32(table), Int32(one) }, "cu_seqlens_kv has elements 1;"},
		{func(c *Call) { c.CuSeqlensQ, c.CuSeqlensKV = Int32(table), Int64([]int64{0, 1, 2}) }, "cu_seqlens_q must be int64"},
		{func(c *Call) { c.SeqUsedKV = Int64([]int64{1, 2}) }, "seqused_kv must be int32"},
	} {
		call := x.call()
		row.change(call)
		if text := refusal(t, ProblemOf(call), call); !strings.HasPrefix(text, row.text) {
			t.Errorf("%q, must begin %q", text, row.text)
		}
	}
}

func TestMemoryOutsideGoIsTakenByAddress(t *testing.T) {
	x := newTensors()
	call := x.call()
	call.K = At(F32, uintptr(unsafe.Pointer(&x.k[0])), 2, 5, 2, 8)
	problem := ProblemOf(call)
	if err := cpu(t).Attention(&problem, call); err != nil || x.o[0] != 1.5 {
		t.Fatal(err, x.o[0])
	}
	runtime.KeepAlive(x)
}

func TestAWorkspaceServesItsOwnPlanOnly(t *testing.T) {
	call := newTensors().call()
	handle := cpu(t)
	first, err := handle.Plan(ProblemOf(call))
	if err != nil {
		t.Fatal(err)
	}
	second, err := handle.Plan(ProblemOf(call))
	if err != nil {
		t.Fatal(err)
	}
	workspace, err := first.NewWorkspace()
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Forward(call, workspace); err == nil || err.(*Error).Status != BadWorkspace {
		t.Fatal(err)
	}
}

func TestPlansTellWhatWasDecided(t *testing.T) {
	problem := ProblemOf(newTensors().call())
	problem.Kernel = "fwd_cpu_scalar"
	plan, err := cpu(t).Plan(problem)
	if err != nil {
		t.Fatal(err)
	}
	info, err := plan.Info()
	if err != nil || info.Kernel != "fwd_cpu_scalar" || info.Backend != CPU || !info.Deterministic {
		t.Fatal(info, err)
	}
	library, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	if devices, err := library.Devices(CPU); err != nil || len(devices) != 1 {
		t.Fatal(devices, err)
	}
}
