// SPDX-License-Identifier: Apache-2.0

package flashattn

// #include "bridge.h"
import "C"

import (
	"math"
	"runtime"
	"unsafe"
)

// Layouts of Q and O, and of K and V.
const (
	LayoutDense    int32 = C.FLASHATTN_LAYOUT_DENSE
	LayoutRagged   int32 = C.FLASHATTN_LAYOUT_RAGGED
	LayoutPaged    int32 = C.FLASHATTN_LAYOUT_PAGED
	LayoutPagedCSR int32 = C.FLASHATTN_LAYOUT_PAGED_CSR
)

// Bits of Problem.Features: what is computed.
const (
	FeatureWindow      uint64 = 0x1 // WindowLeft and WindowRight are meaningful
	FeatureAlibi       uint64 = 0x2
	FeatureSinks       uint64 = 0x4
	FeatureSeqUsedQ    uint64 = 0x8
	FeatureSeqUsedKV   uint64 = 0x10
	FeatureDiagOffsets uint64 = 0x20
)

// Bits of Problem.Flags: how it is computed.
const (
	FlagBatchInvariant uint64 = 0x1 // a row's bits do not depend on the batch around it
	FlagRequireFast    uint64 = 0x2 // an error rather than the generic kernel
	FlagCuSeqlensInt64 uint64 = 0x4 // CuSeqlensQ and CuSeqlensKV are int64
)

// Values of Problem.PrecisionF32: how products of float32 inputs are formed.
const (
	PrecisionIEEE   int32 = C.FLASHATTN_PRECISION_IEEE
	PrecisionTF32   int32 = C.FLASHATTN_PRECISION_TF32
	PrecisionTF32x3 int32 = C.FLASHATTN_PRECISION_TF32X3
)

// Problem is a class of calls: what a plan is made for. The fields are those of flashattn_problem_t.
type Problem struct {
	Op                                 int32
	DTypeQ, DTypeKV, DTypeO, DTypeBias DType
	LayoutQ, LayoutKV                  int32
	NumHeadsQ, NumHeadsKV              int32
	HeadDim, HeadDimV                  int32
	MaxBatch, MaxSeqlenQ, MaxSeqlenKV  int32
	PageSize                           int32
	MaxTotalQ, MaxTotalKV, MaxPages    int64
	Features, Flags                    uint64
	SoftmaxScale                       float32 // 0: 1 / sqrt(HeadDim)
	Softcap                            float32 // 0: off
	Causal                             bool    // bottom-right aligned; see Call.DiagOffset
	WindowLeft, WindowRight            int32   // with FeatureWindow; both ends included, -1 unbounded
	NumSplits                          int32   // KV splits; 0: choose
	PrecisionF32                       int32
	Kernel                             string // force a kernel; "": choose
}

// ProblemOf is the dtypes, layouts, heads, dims and features of a call, with its sizes as maxima.
func ProblemOf(c *Call) Problem {
	raw := &c.fill().call
	p := Problem{
		DTypeQ: c.Q.dtype, DTypeKV: c.K.dtype, DTypeO: c.O.dtype, DTypeBias: c.Bias.dtype,
		NumHeadsQ: int32(clamp32(c.Q.shape[2])), NumHeadsKV: int32(clamp32(c.K.shape[2])),
		HeadDim: int32(clamp32(c.Q.shape[3])), HeadDimV: int32(clamp32(c.V.shape[3])),
		MaxBatch: int32(raw.batch), MaxSeqlenQ: int32(raw.seqlen_q), MaxSeqlenKV: int32(raw.seqlen_kv),
		MaxTotalQ: int64(raw.total_q), MaxTotalKV: int64(raw.total_kv), MaxPages: int64(raw.num_pages),
	}
	runtime.KeepAlive(c.bridge)
	if c.CuSeqlensQ.there() {
		p.LayoutQ = LayoutRagged
		if p.MaxSeqlenQ == 0 {
			p.MaxSeqlenQ = int32(clamp32(c.Q.shape[1]))
		}
	}
	longest := c.K.shape[1]
	switch {
	case c.PageTable.there():
		p.LayoutKV = LayoutPaged
		longest = saturatedProduct(int(c.PageTableWidth), c.K.shape[1])
	case c.PageIndptr.there():
		p.LayoutKV = LayoutPagedCSR
		longest = saturatedProduct(c.K.shape[0], c.K.shape[1])
	case c.CuSeqlensKV.there():
		p.LayoutKV = LayoutRagged
	}
	if c.paged() {
		p.PageSize = int32(clamp32(c.K.shape[1]))
	}
	if p.LayoutKV != LayoutDense && p.MaxSeqlenKV == 0 {
		p.MaxSeqlenKV = int32(clamp32(longest))
	}
	for _, f := range [...]struct {
		there bool
		bit   uint64
	}{{c.AlibiSlopes.there(), FeatureAlibi}, {c.Sinks.there(), FeatureSinks}, {c.SeqUsedQ.there(), FeatureSeqUsedQ},
		{c.SeqUsedKV.there(), FeatureSeqUsedKV}, {c.DiagOffsets.there(), FeatureDiagOffsets}} {
		if f.there {
			p.Features |= f.bit
		}
	}
	if c.CuSeqlensQ.wide || c.CuSeqlensKV.wide {
		p.Flags |= FlagCuSeqlensInt64
	}
	return p
}

func saturatedProduct(a, b int) int {
	if a > 0 && b > math.MaxInt32/a {
		return math.MaxInt32
	}
	return a * b
}

// SetWindow restricts a query at the diagonal to left keys before and right keys after it; -1 is unbounded.
func (p *Problem) SetWindow(left, right int32) {
	p.Features |= FeatureWindow
	p.WindowLeft, p.WindowRight = left, right
}

func (p *Problem) fill(r *C.flashattn_problem_t) {
	r.struct_size = C.uint32_t(unsafe.Sizeof(*r))
	r.op = C.int32_t(p.Op)
	r.dtype_q, r.dtype_kv = C.int32_t(p.DTypeQ), C.int32_t(p.DTypeKV)
	r.dtype_o, r.dtype_bias = C.int32_t(p.DTypeO), C.int32_t(p.DTypeBias)
	r.layout_q, r.layout_kv = C.int32_t(p.LayoutQ), C.int32_t(p.LayoutKV)
	r.num_heads_q, r.num_heads_kv = C.int32_t(p.NumHeadsQ), C.int32_t(p.NumHeadsKV)
	r.head_dim, r.head_dim_v = C.int32_t(p.HeadDim), C.int32_t(p.HeadDimV)
	r.max_batch, r.max_seqlen_q, r.max_seqlen_kv = C.int32_t(p.MaxBatch), C.int32_t(p.MaxSeqlenQ), C.int32_t(p.MaxSeqlenKV)
	r.page_size = C.int32_t(p.PageSize)
	r.max_total_q, r.max_total_kv, r.max_pages = C.int64_t(p.MaxTotalQ), C.int64_t(p.MaxTotalKV), C.int64_t(p.MaxPages)
	r.features, r.flags = C.uint64_t(p.Features), C.uint64_t(p.Flags)
	r.softmax_scale, r.softcap = C.float(p.SoftmaxScale), C.float(p.Softcap)
	r.causal = 0
	if p.Causal {
		r.causal = 1
	}
	r.window_left, r.window_right = C.int32_t(p.WindowLeft), C.int32_t(p.WindowRight)
	r.num_splits = C.int32_t(p.NumSplits)
	r.precision_f32 = C.int32_t(p.PrecisionF32)
	r.kernel = [64]C.char{}
	// A name longer than the field's 63 bytes is cut so that the library refuses it.
	for i := 0; i < len(p.Kernel) && i < len(r.kernel); i++ {
		r.kernel[i] = C.char(p.Kernel[i])
	}
}
