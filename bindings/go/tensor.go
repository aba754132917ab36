// SPDX-License-Identifier: Apache-2.0

package flashattn

// #include "bridge.h"
import "C"

import "unsafe"

// DType is an element type.
type DType int32

// Element types.
const (
	F32  DType = C.FLASHATTN_DTYPE_F32
	F16  DType = C.FLASHATTN_DTYPE_F16
	BF16 DType = C.FLASHATTN_DTYPE_BF16
	U8   DType = C.FLASHATTN_DTYPE_U8 // boolean masks: non-zero is visible
)

// Float16 holds the bits of an IEEE binary16.
type Float16 uint16

// BFloat16 holds the bits of a bfloat16.
type BFloat16 uint16

// Element is what tensors hold.
type Element interface{ float32 | Float16 | BFloat16 }

func dtypeOf[T Element | uint8]() DType {
	switch any(*new(T)).(type) {
	case float32:
		return F32
	case Float16:
		return F16
	case BFloat16:
		return BF16
	}
	return U8
}

// memory is elements of a slice, or at an address outside Go.
type memory struct {
	host    *C.uint8_t
	address uintptr
	len     int // of the slice
}

func (m memory) there() bool { return m.host != nil || m.address != 0 }

func slice[T any](data []T) memory {
	if len(data) == 0 {
		return memory{}
	}
	return memory{host: (*C.uint8_t)(unsafe.Pointer(&data[0])), len: len(data)}
}

// Tensor is rows of [batch, seqlen, heads, dim], the last dimension contiguous. Ragged: batch 1, seqlen the rows of the
// whole buffer. Paged: batch the pages of the pool, seqlen the slots of a page.
type Tensor struct {
	memory
	dtype   DType
	shape   [4]int
	strides [3]int
	fits    bool // the slice is as long as shape and strides need
}

func contiguous(m memory, dtype DType, batch, seqlen, heads, dim int) Tensor {
	t := Tensor{memory: m, dtype: dtype, shape: [4]int{batch, seqlen, heads, dim}}
	return t.Strided(seqlen*heads*dim, heads*dim, dim)
}

// Host is a contiguous tensor in a slice.
func Host[T Element](data []T, batch, seqlen, heads, dim int) Tensor {
	return contiguous(slice(data), dtypeOf[T](), batch, seqlen, heads, dim)
}

// At is a contiguous tensor at an address that the handle's device can read: device memory for a GPU, memory outside Go for
// the CPU. It is taken as it is, and must stay until the work is done.
func At(dtype DType, address uintptr, batch, seqlen, heads, dim int) Tensor {
	return contiguous(memory{address: address}, dtype, batch, seqlen, heads, dim)
}

// Strided is the tensor with other strides, in elements; 0 repeats.
func (t Tensor) Strided(batch, seqlen, heads int) Tensor {
	t.strides = [3]int{batch, seqlen, heads}
	t.fits = t.host == nil || t.needed() <= float64(t.len)
	return t
}

// needed is the elements from the first to the last of a tensor; a float so that it cannot overflow.
func (t *Tensor) needed() float64 {
	if t.shape[0] <= 0 || t.shape[1] <= 0 || t.shape[2] <= 0 {
		return 0
	}
	return last(t.shape[0], t.strides[0]) + last(t.shape[1], t.strides[1]) + last(t.shape[2], t.strides[2]) +
		float64(t.shape[3])
}

func last(extent, stride int) float64 { return float64(extent-1) * float64(stride) }

// Ints is a list of lengths, starts or pages.
type Ints struct {
	memory
	wide bool
}

// Int32 is a list in a slice.
func Int32(values []int32) Ints { return Ints{memory: slice(values)} }

// Int64 is a list in a slice; only CuSeqlensQ and CuSeqlensKV may be one.
func Int64(values []int64) Ints { return Ints{slice(values), true} }

// Int32At is a list of length values at an address outside Go; see At.
func Int32At(address uintptr, length int) Ints {
	return Ints{memory: memory{address: address, len: length}}
}

// Int64At is a list of length values at an address outside Go; see At.
func Int64At(address uintptr, length int) Ints {
	return Ints{memory{address: address, len: length}, true}
}

// PerHead is one float32 for each query head, or for each sequence and query head.
type PerHead struct {
	memory
	strideBatch, strideHead int
}

// Heads is one value for each query head, the same for every sequence.
func Heads(values []float32) PerHead { return PerHead{slice(values), 0, 1} }

// BatchHeads has strides of batch and heads in elements.
func BatchHeads(values []float32, strideBatch, strideHead int) PerHead {
	return PerHead{slice(values), strideBatch, strideHead}
}

// HeadsAt is at an address outside Go; see At.
func HeadsAt(address uintptr, strideBatch, strideHead int) PerHead {
	return PerHead{memory{address: address}, strideBatch, strideHead}
}

// Bias is added to the scores, or is a boolean mask.
type Bias struct {
	memory
	dtype   DType
	strides [4]int
}

// HostBias has strides of batch, heads, queries and keys in elements; 0 repeats. A []uint8 is a boolean mask.
func HostBias[T Element | uint8](values []T, strides [4]int) Bias {
	return Bias{slice(values), dtypeOf[T](), strides}
}

// BiasAt is at an address outside Go; see At.
func BiasAt(dtype DType, address uintptr, strides [4]int) Bias {
	return Bias{memory{address: address}, dtype, strides}
}
