// SPDX-License-Identifier: Apache-2.0

package flashattn

// #include "bridge.h"
// #include <stdlib.h>
import "C"

import (
	"math"
	"runtime"
	"unsafe"
)

// Call is the tensors of one call; Q, K, V and O are needed. Sizes follow from them: Q gives the batch, and ragged
// lengths do where there are any. A Call is used by pointer, from one goroutine at a time.
type Call struct {
	Q, K, V Tensor
	O       Tensor // written
	LSE     Tensor // written; float32 [batch, seqlen, heads, 1]; zero: not wanted

	CuSeqlensQ, CuSeqlensKV Ints  // ragged: [batch + 1] starts of the sequences
	MaxSeqlenQ, MaxSeqlenKV int32 // bounds on ragged and paged lengths; 0: what the problem has
	SeqUsedQ, SeqUsedKV     Ints  // [batch]: rows of each sequence that count; SeqUsedKV is needed with pages
	DiagOffset              int32 // moves the diagonal; top-left causal is seqlen_q - seqlen_kv
	DiagOffsets             Ints  // [batch]: added to DiagOffset

	PageTable       Ints // sequence b's pages are entries b * PageTableStride .. + PageTableWidth
	PageTableWidth  int32
	PageTableStride int64
	PageIndptr      Ints // or: sequence b's pages are PageIndices[PageIndptr[b]:PageIndptr[b+1]]
	PageIndices     Ints

	Bias               Bias
	AlibiSlopes, Sinks PerHead

	bridge *bridge
}

// bridge is a call's memory on the C side, which may be handed over without looking for Go pointers in it.
type bridge struct {
	c     *C.bridge_call_t
	owner uintptr // of the Call: a copy of a Call makes its own
}

func (c *Call) side() *C.bridge_call_t {
	if c.bridge == nil || c.bridge.owner != uintptr(unsafe.Pointer(c)) {
		c.bridge = &bridge{(*C.bridge_call_t)(C.calloc(1, C.sizeof_bridge_call_t)), uintptr(unsafe.Pointer(c))}
		c.bridge.c.call.struct_size = C.sizeof_flashattn_call_t
		runtime.SetFinalizer(c.bridge, func(b *bridge) { C.free(unsafe.Pointer(b.c)) })
	}
	return c.bridge.c
}

func (c *Call) paged() bool { return c.PageTable.there() || c.PageIndptr.there() }

func clamp32(value int) C.int32_t {
	if value > math.MaxInt32 {
		return math.MaxInt32
	}
	return C.int32_t(value)
}

func (c *Call) batch() int {
	if c.CuSeqlensQ.there() {
		return c.CuSeqlensQ.len - 1
	}
	if c.CuSeqlensKV.there() {
		return c.CuSeqlensKV.len - 1
	}
	return c.Q.shape[0]
}

func (t *Tensor) fill(to *C.flashattn_tensor_t) {
	to.stride_batch = C.int64_t(t.strides[0])
	to.stride_seq = C.int64_t(t.strides[1])
	to.stride_head = C.int64_t(t.strides[2])
}

func (p *PerHead) fill(to *C.flashattn_per_head_t) {
	to.stride_batch = C.int64_t(p.strideBatch)
	to.stride_head = C.int64_t(p.strideHead)
}

// fill writes the C struct but for its pointers, and the addresses that are outside Go.
func (c *Call) fill() *C.bridge_call_t {
	b := c.side()
	r := &b.call
	r.batch = clamp32(c.batch())
	r.seqlen_q, r.total_q = clamp32(c.Q.shape[1]), 0
	if c.CuSeqlensQ.there() {
		r.seqlen_q, r.total_q = C.int32_t(c.MaxSeqlenQ), C.int64_t(c.Q.shape[1])
	}
	r.seqlen_kv, r.total_kv, r.num_pages = clamp32(c.K.shape[1]), 0, 0
	if c.CuSeqlensKV.there() {
		r.seqlen_kv, r.total_kv = C.int32_t(c.MaxSeqlenKV), C.int64_t(c.K.shape[1])
	}
	if c.paged() {
		r.seqlen_kv, r.num_pages = C.int32_t(c.MaxSeqlenKV), C.int64_t(c.K.shape[0])
	}
	r.diag_offset = C.int32_t(c.DiagOffset)
	c.Q.fill(&r.q)
	c.K.fill(&r.k)
	c.V.fill(&r.v)
	c.O.fill(&r.o)
	c.LSE.fill(&r.lse)
	r.page_table_stride = C.int64_t(c.PageTableStride)
	r.page_table_width = C.int32_t(c.PageTableWidth)
	r.bias.stride_batch = C.int64_t(c.Bias.strides[0])
	r.bias.stride_head = C.int64_t(c.Bias.strides[1])
	r.bias.stride_q = C.int64_t(c.Bias.strides[2])
	r.bias.stride_kv = C.int64_t(c.Bias.strides[3])
	c.AlibiSlopes.fill(&r.alibi_slopes)
	c.Sinks.fill(&r.sinks)

	at := &b.addresses
	at[C.BRIDGE_Q] = C.uintptr_t(c.Q.address)
	at[C.BRIDGE_K] = C.uintptr_t(c.K.address)
	at[C.BRIDGE_V] = C.uintptr_t(c.V.address)
	at[C.BRIDGE_O] = C.uintptr_t(c.O.address)
	at[C.BRIDGE_LSE] = C.uintptr_t(c.LSE.address)
	at[C.BRIDGE_CU_SEQLENS_Q] = C.uintptr_t(c.CuSeqlensQ.address)
	at[C.BRIDGE_CU_SEQLENS_KV] = C.uintptr_t(c.CuSeqlensKV.address)
	at[C.BRIDGE_SEQUSED_Q] = C.uintptr_t(c.SeqUsedQ.address)
	at[C.BRIDGE_SEQUSED_KV] = C.uintptr_t(c.SeqUsedKV.address)
	at[C.BRIDGE_DIAG_OFFSETS] = C.uintptr_t(c.DiagOffsets.address)
	at[C.BRIDGE_PAGE_TABLE] = C.uintptr_t(c.PageTable.address)
	at[C.BRIDGE_PAGE_INDPTR] = C.uintptr_t(c.PageIndptr.address)
	at[C.BRIDGE_PAGE_INDICES] = C.uintptr_t(c.PageIndices.address)
	at[C.BRIDGE_BIAS] = C.uintptr_t(c.Bias.address)
	at[C.BRIDGE_ALIBI_SLOPES] = C.uintptr_t(c.AlibiSlopes.address)
	at[C.BRIDGE_SINKS] = C.uintptr_t(c.Sinks.address)
	return b
}

// run hands everything to C in one call. Pointers to slices are arguments of their own: Go pointers may not be stored in C
// memory.
func (c *Call) run(b *C.bridge_call_t, workspace *C.uint8_t) error {
	o := C.bridge_run(b, workspace, c.Q.host, c.K.host, c.V.host, c.O.host, c.LSE.host, c.CuSeqlensQ.host,
		c.CuSeqlensKV.host, c.SeqUsedQ.host, c.SeqUsedKV.host, c.DiagOffsets.host, c.PageTable.host, c.PageIndptr.host,
		c.PageIndices.host, c.Bias.host, c.AlibiSlopes.host, c.Sinks.host)
	runtime.KeepAlive(c.bridge)
	if o.status == C.FLASHATTN_STATUS_OK {
		return nil
	}
	return failure(o)
}

func equal(field, what string, is int, of string, must int) error {
	if is == must {
		return nil
	}
	return mismatch(field, what, int64(is), of, int64(must))
}

// check finds the first disagreement between slices, tensors, problem and the kind of device. What is at an address outside
// Go is taken as it is.
func (c *Call) check(p *Problem, onCPU bool) error {
	if !onCPU && c.hasSlices() {
		return &Error{InvalidArgument, 0, "the call has slices; the handle's device is a GPU, which needs addresses (At)"}
	}
	dtypeO := p.DTypeO
	if dtypeO == 0 {
		dtypeO = p.DTypeQ
	}
	dimV := p.HeadDimV
	if dimV == 0 {
		dimV = p.HeadDim
	}
	good := c.Q.agrees(&c.Q, p.DTypeQ, p.NumHeadsQ, p.HeadDim) &&
		c.K.agrees(&c.K, p.DTypeKV, p.NumHeadsKV, p.HeadDim) &&
		c.V.agrees(&c.K, p.DTypeKV, p.NumHeadsKV, dimV) &&
		c.O.agrees(&c.Q, dtypeO, p.NumHeadsQ, dimV) &&
		c.LSE.agrees(&c.Q, F32, p.NumHeadsQ, 1)
	if !good {
		return c.misfit(p, dtypeO, dimV)
	}
	batch := c.batch()
	if c.K.host != nil {
		if c.paged() {
			if c.K.shape[1] != int(p.PageSize) {
				return equal("k", "seqlen", c.K.shape[1], "page_size", int(p.PageSize))
			}
		} else if !c.CuSeqlensKV.there() && c.K.shape[0] != batch {
			return equal("k", "batch", c.K.shape[0], "that of the call", batch)
		}
	}
	if c.Q.host != nil && !c.CuSeqlensQ.there() && c.Q.shape[0] != batch {
		return equal("q", "batch", c.Q.shape[0], "that of the call", batch)
	}
	if err := c.CuSeqlensQ.starts("cu_seqlens_q", batch, p.Flags); err != nil {
		return err
	}
	if err := c.CuSeqlensKV.starts("cu_seqlens_kv", batch, p.Flags); err != nil {
		return err
	}
	if err := c.SeqUsedQ.holds("seqused_q", batch, float64(batch)); err != nil {
		return err
	}
	if err := c.SeqUsedKV.holds("seqused_kv", batch, float64(batch)); err != nil {
		return err
	}
	if err := c.DiagOffsets.holds("diag_offsets", batch, float64(batch)); err != nil {
		return err
	}
	if c.paged() {
		if err := c.checkPages(batch); err != nil {
			return err
		}
	}
	heads := int(p.NumHeadsQ)
	if c.Bias.there() {
		if err := c.checkBias(p, batch, heads); err != nil {
			return err
		}
	}
	if err := c.AlibiSlopes.holds("alibi_slopes", batch, heads); err != nil {
		return err
	}
	return c.Sinks.holds("sinks", batch, heads)
}

func (c *Call) hasSlices() bool {
	for _, m := range [...]*memory{&c.Q.memory, &c.K.memory, &c.V.memory, &c.O.memory, &c.LSE.memory,
		&c.CuSeqlensQ.memory, &c.CuSeqlensKV.memory, &c.SeqUsedQ.memory, &c.SeqUsedKV.memory, &c.DiagOffsets.memory,
		&c.PageTable.memory, &c.PageIndptr.memory, &c.PageIndices.memory, &c.Bias.memory, &c.AlibiSlopes.memory,
		&c.Sinks.memory} {
		if m.host != nil {
			return true
		}
	}
	return false
}

func (t *Tensor) agrees(like *Tensor, dtype DType, heads, dim int32) bool {
	return t.host == nil || (t.fits && t.dtype == dtype && t.shape[0] == like.shape[0] &&
		t.shape[1] == like.shape[1] && t.shape[2] == int(heads) && t.shape[3] == int(dim))
}

// misfit names the tensor that does not agree.
func (c *Call) misfit(p *Problem, dtypeO DType, dimV int32) error {
	for _, row := range [...]struct {
		name      string
		t         *Tensor
		dtypeName string
		dtype     DType
		headsName string
		heads     int32
		dimName   string
		dim       int32
		like      *Tensor
		likeName  string
	}{
		{"q", &c.Q, "dtype_q", p.DTypeQ, "num_heads_q", p.NumHeadsQ, "head_dim", p.HeadDim, &c.Q, ""},
		{"k", &c.K, "dtype_kv", p.DTypeKV, "num_heads_kv", p.NumHeadsKV, "head_dim", p.HeadDim, &c.K, ""},
		{"v", &c.V, "dtype_kv", p.DTypeKV, "num_heads_kv", p.NumHeadsKV, "head_dim_v", dimV, &c.K, "that of k"},
		{"o", &c.O, "dtype_o", dtypeO, "num_heads_q", p.NumHeadsQ, "head_dim_v", dimV, &c.Q, "that of q"},
		{"lse", &c.LSE, "that of LSE", F32, "num_heads_q", p.NumHeadsQ, "that of LSE", 1, &c.Q, "that of q"},
	} {
		t := row.t
		if t.agrees(row.like, row.dtype, row.heads, row.dim) {
			continue
		}
		if !t.fits {
			return mismatch(row.name, "elements", int64(t.len), "what shape and strides need", int64(t.needed()))
		}
		if err := equal(row.name, "dtype", int(t.dtype), row.dtypeName, int(row.dtype)); err != nil {
			return err
		}
		if err := equal(row.name, "heads", t.shape[2], row.headsName, int(row.heads)); err != nil {
			return err
		}
		if err := equal(row.name, "dim", t.shape[3], row.dimName, int(row.dim)); err != nil {
			return err
		}
		if err := equal(row.name, "batch", t.shape[0], row.likeName, row.like.shape[0]); err != nil {
			return err
		}
		return equal(row.name, "seqlen", t.shape[1], row.likeName, row.like.shape[1])
	}
	return nil
}

// holds is about a slice of at least needed elements.
func (m *memory) holds(name string, batch int, needed float64) error {
	if m.host == nil || needed <= float64(m.len) || batch <= 0 {
		return nil
	}
	return mismatch(name, "elements", int64(m.len), "what the batch and its strides need", int64(needed))
}

func (i *Ints) holds(name string, batch int, needed float64) error {
	if i.wide {
		return &Error{InvalidArgument, 0, name + " must be int32"}
	}
	return i.memory.holds(name, batch, needed)
}

func (h *PerHead) holds(name string, batch, heads int) error {
	if h.host == nil {
		return nil
	}
	return h.memory.holds(name, batch, last(batch, h.strideBatch)+last(heads, h.strideHead)+1)
}

func (i *Ints) starts(name string, batch int, flags uint64) error {
	if !i.there() {
		return nil
	}
	if i.len != batch+1 {
		return equal(name, "elements", i.len, "batch + 1", batch+1)
	}
	if i.wide != (flags&FlagCuSeqlensInt64 != 0) {
		return &Error{InvalidArgument, 0, name + " must be int64 with FlagCuSeqlensInt64 in the problem's flags, else int32"}
	}
	return nil
}

func (c *Call) checkPages(batch int) error {
	entries := last(batch, int(c.PageTableStride)) + float64(c.PageTableWidth)
	if err := c.PageTable.holds("page_table", batch, entries); err != nil {
		return err
	}
	if err := c.PageIndptr.holds("page_indptr", batch, float64(batch+1)); err != nil {
		return err
	}
	end := int32(0)
	if c.PageIndptr.host != nil && batch >= 0 {
		for _, start := range unsafe.Slice((*int32)(unsafe.Pointer(c.PageIndptr.host)), batch+1) {
			if start > end {
				end = start
			}
		}
	}
	return c.PageIndices.holds("page_indices", batch, float64(end))
}

func (c *Call) checkBias(p *Problem, batch, heads int) error {
	b := &c.Bias
	if err := equal("bias", "dtype", int(b.dtype), "dtype_bias", int(p.DTypeBias)); err != nil {
		return err
	}
	keys := c.K.shape[1]
	if c.paged() || c.CuSeqlensKV.there() {
		// As far as the longest sequence may reach.
		keys = int(c.MaxSeqlenKV)
		if keys == 0 {
			keys = int(p.MaxSeqlenKV)
		}
	}
	needed := last(batch, b.strides[0]) + last(heads, b.strides[1]) + last(c.Q.shape[1], b.strides[2]) +
		last(keys, b.strides[3]) + 1
	return b.holds("bias", batch, needed)
}
