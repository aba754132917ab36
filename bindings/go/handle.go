// SPDX-License-Identifier: Apache-2.0

package flashattn

// #include "bridge.h"
import "C"

import (
	"runtime"
	"sync"
	"unsafe"
)

// Backend is a kind of device.
type Backend int32

// Backends.
const (
	Auto Backend = C.FLASHATTN_BACKEND_AUTO // a GPU when one can be opened, else the CPU
	CPU  Backend = C.FLASHATTN_BACKEND_CPU
	CUDA Backend = C.FLASHATTN_BACKEND_CUDA
	HIP  Backend = C.FLASHATTN_BACKEND_HIP
)

// Options says what to open. Zero: the best device, threads as the machine has.
type Options struct {
	Library    *Library // nil: Default()
	Backend    Backend
	Device     int32
	NumThreads int32 // CPU: threads per call, the caller's included
	Validate   bool  // check pointers, lengths and page indices on the device too
}

// Handle is one device of one backend.
type Handle struct {
	mutex   sync.RWMutex // read: in use; written: Close
	library *Library
	c       *C.flashattn_handle_t
	onCPU   bool
}

// NewHandle opens a device.
func NewHandle(o Options) (*Handle, error) {
	library := o.Library
	if library == nil {
		var err error
		if library, err = Default(); err != nil {
			return nil, err
		}
	}
	var raw C.flashattn_options_t
	raw.struct_size = C.uint32_t(unsafe.Sizeof(raw))
	raw.backend, raw.device, raw.num_threads = C.int32_t(o.Backend), C.int32_t(o.Device), C.int32_t(o.NumThreads)
	if o.Validate {
		raw.flags = 1 // FLASHATTN_OPTION_VALIDATE
	}
	h := &Handle{library: library}
	if err := failure(C.bridge_create(library.c, &raw, &h.c)); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(h, (*Handle).Close)
	info, err := h.Info()
	if err != nil {
		return nil, err
	}
	h.onCPU = info.Backend == CPU
	return h, nil
}

// Close gives the handle back. Plans made with it stay usable. Closing twice is fine.
func (h *Handle) Close() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.c != nil {
		C.bridge_destroy(h.library.c, h.c)
		h.c = nil
		runtime.SetFinalizer(h, nil)
	}
}

// HandleInfo describes an open handle.
type HandleInfo struct {
	Backend    Backend
	Device     int
	NumThreads int // CPU threads per call; 0 on a GPU
	Name       string
}

// Info describes the handle.
func (h *Handle) Info() (HandleInfo, error) {
	h.mutex.RLock()
	defer h.mutex.RUnlock()
	if h.c == nil {
		return HandleInfo{}, closed("handle")
	}
	var info C.flashattn_handle_info_t
	info.struct_size = C.uint32_t(unsafe.Sizeof(info))
	if err := failure(C.bridge_handle_info(h.library.c, h.c, &info)); err != nil {
		return HandleInfo{}, err
	}
	return HandleInfo{Backend(info.backend), int(info.device), int(info.num_threads), C.GoString(&info.name[0])}, nil
}

// Plan picks kernels for a problem.
func (h *Handle) Plan(problem Problem) (*Plan, error) {
	h.mutex.RLock()
	defer h.mutex.RUnlock()
	if h.c == nil {
		return nil, closed("handle")
	}
	var raw C.flashattn_problem_t
	problem.fill(&raw)
	p := &Plan{library: h.library, problem: problem, onCPU: h.onCPU}
	if err := failure(C.bridge_plan_create(h.library.c, h.c, &raw, &p.c)); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(p, (*Plan).Close)
	return p, nil
}

// Attention computes O (and LSE) with plan and workspace from the handle's caches. On the CPU it is done on return, on a
// GPU enqueued on the legacy default stream.
func (h *Handle) Attention(problem *Problem, call *Call) error {
	return h.AttentionOn(problem, call, 0)
}

// AttentionOn is Attention on a stream (CUstream, hipStream_t).
func (h *Handle) AttentionOn(problem *Problem, call *Call, stream uintptr) error {
	h.mutex.RLock()
	defer h.mutex.RUnlock()
	if h.c == nil {
		return closed("handle")
	}
	if err := call.check(problem, h.onCPU); err != nil {
		return err
	}
	b := call.fill()
	problem.fill(&b.problem)
	b.library, b.handle, b.plan, b.stream = h.library.c, h.c, nil, C.uintptr_t(stream)
	return call.run(b, nil)
}
