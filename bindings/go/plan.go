// SPDX-License-Identifier: Apache-2.0

package flashattn

// #include "bridge.h"
import "C"

import (
	"runtime"
	"sync"
	"unsafe"
)

// Plan is an immutable dispatch decision. It keeps its handle's device open.
type Plan struct {
	mutex   sync.RWMutex // read: in use; written: Close
	library *Library
	c       *C.flashattn_plan_t
	problem Problem
	onCPU   bool
}

// Close gives the plan back. Closing twice is fine.
func (p *Plan) Close() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.c != nil {
		C.bridge_plan_destroy(p.library.c, p.c)
		p.c = nil
		runtime.SetFinalizer(p, nil)
	}
}

// PlanInfo is what was decided.
type PlanInfo struct {
	Backend            Backend
	Kernel             string // the fast kernel
	GenericKernel      string // runs calls whose bases or strides the fast one cannot take
	NumSplits          int
	WorkspaceSize      uint64
	WorkspaceAlignment uint64
	MaterializedBytes  uint64 // what a stored score and probability matrix would take
	Deterministic      bool
	BatchInvariant     bool
	Reasons            []string // "kernel: reason" for every more specific kernel that was not chosen
}

// Info tells what was decided.
func (p *Plan) Info() (PlanInfo, error) {
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	if p.c == nil {
		return PlanInfo{}, closed("plan")
	}
	var info C.flashattn_plan_info_t
	info.struct_size = C.uint32_t(unsafe.Sizeof(info))
	if err := failure(C.bridge_plan_info(p.library.c, p.c, &info)); err != nil {
		return PlanInfo{}, err
	}
	result := PlanInfo{Backend(info.backend), C.GoString(&info.kernel[0]), C.GoString(&info.generic_kernel[0]),
		int(info.num_splits), uint64(info.workspace_size), uint64(info.workspace_alignment),
		uint64(info.materialized_bytes), info.deterministic != 0, info.batch_invariant != 0, nil}
	for i := C.int32_t(0); i < info.reason_count; i++ {
		result.Reasons = append(result.Reasons, C.GoString(C.bridge_plan_reason(p.library.c, p.c, i)))
	}
	return result, nil
}

// Workspace is memory that the calls of one plan work in on the CPU, one at a time.
type Workspace struct {
	plan   *Plan
	memory []byte
	data   *C.uint8_t // aligned, inside memory
	size   uint64
}

// NewWorkspace makes a workspace for Forward.
func (p *Plan) NewWorkspace() (*Workspace, error) {
	info, err := p.Info()
	if err != nil {
		return nil, err
	}
	if !p.onCPU {
		return nil, &Error{BadWorkspace, 0, "a workspace in Go memory is for the CPU; a plan of a GPU runs by ForwardOn"}
	}
	w := &Workspace{plan: p, size: info.WorkspaceSize}
	if w.size != 0 {
		w.memory = make([]byte, w.size+info.WorkspaceAlignment)
		base := uint64(uintptr(unsafe.Pointer(&w.memory[0])))
		w.data = (*C.uint8_t)(unsafe.Pointer(&w.memory[-base&(info.WorkspaceAlignment-1)]))
	}
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	if p.c == nil {
		return nil, closed("plan")
	}
	return w, failure(C.bridge_workspace_init(p.library.c, p.c, unsafe.Pointer(w.data), C.size_t(w.size)))
}

// Forward computes O (and LSE) on the CPU; it is done on return. It allocates nothing.
func (p *Plan) Forward(call *Call, workspace *Workspace) error {
	if workspace == nil || workspace.plan != p {
		return &Error{BadWorkspace, 0, "workspace belongs to another plan; it must be made by NewWorkspace of this one"}
	}
	return p.run(call, workspace.data, 0, workspace.size, 0)
}

// ForwardOn enqueues the call on a stream (CUstream, hipStream_t) of the handle's GPU. The workspace is device memory of
// the plan's size and alignment, initialised once by flashattn_workspace_init, and no other running call's.
func (p *Plan) ForwardOn(call *Call, workspace uintptr, size uint64, stream uintptr) error {
	return p.run(call, nil, workspace, size, stream)
}

func (p *Plan) run(call *Call, workspace *C.uint8_t, address uintptr, size uint64, stream uintptr) error {
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	if p.c == nil {
		return closed("plan")
	}
	if err := call.check(&p.problem, p.onCPU); err != nil {
		return err
	}
	b := call.fill()
	b.library, b.plan, b.stream = p.library.c, p.c, C.uintptr_t(stream)
	b.workspace, b.workspace_size = C.uintptr_t(address), C.size_t(size)
	return call.run(b, workspace)
}
