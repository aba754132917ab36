// SPDX-License-Identifier: Apache-2.0
use crate::sys;
use std::marker::PhantomData;

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum DType {
    /// `f32`
    F32 = sys::FLASHATTN_DTYPE_F32,
    /// IEEE binary16
    F16 = sys::FLASHATTN_DTYPE_F16,
    /// bfloat16
    BF16 = sys::FLASHATTN_DTYPE_BF16,
    /// Boolean masks: non-zero is visible.
    U8 = sys::FLASHATTN_DTYPE_U8,
}

/// Bits of an IEEE binary16; storage only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Float16(pub u16);

/// Bits of a bfloat16; storage only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct BFloat16(pub u16);

/// A type whose values are elements.
///
/// # Safety
/// Size, alignment and meaning of every bit pattern must be those of `DTYPE`. Implement it for the 16-bit type of another
/// crate to use slices of it as they are.
pub unsafe trait Element: Copy + 'static {
    /// What the library calls it.
    const DTYPE: DType;
}
// SAFETY: by definition.
unsafe impl Element for f32 {
    const DTYPE: DType = DType::F32;
}
// SAFETY: repr(transparent) over the bits.
unsafe impl Element for Float16 {
    const DTYPE: DType = DType::F16;
}
// SAFETY: repr(transparent) over the bits.
unsafe impl Element for BFloat16 {
    const DTYPE: DType = DType::BF16;
}
// SAFETY: by definition.
unsafe impl Element for u8 {
    const DTYPE: DType = DType::U8;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for i32 {}
    impl Sealed for i64 {}
}

/// What `cu_seqlens` may hold: `i32` or `i64`.
pub trait Offset: sealed::Sealed + Copy + 'static {
    #[doc(hidden)]
    const INT64: bool;
}
impl Offset for i32 {
    const INT64: bool = false;
}
impl Offset for i64 {
    const INT64: bool = true;
}

/// Elements to read: a slice, or device memory.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a, T> {
    pub(crate) data: *const T,
    pub(crate) len: usize,
    pub(crate) host: bool,
    lifetime: PhantomData<&'a [T]>,
}

impl<'a, T> Input<'a, T> {
    /// Device memory.
    ///
    /// # Safety
    /// `data` is the address of `len` elements that the device of the handle can read for all of `'a`, and until the
    /// work enqueued with them is done. Nothing writes them meanwhile. Where they are lengths or page tables, they keep
    /// the rules of `flashattn.h`.
    pub unsafe fn device(data: *const T, len: usize) -> Input<'a, T> {
        Input { data, len, host: false, lifetime: PhantomData }
    }
}
impl<'a, T> From<&'a [T]> for Input<'a, T> {
    fn from(slice: &'a [T]) -> Self {
        Input { data: slice.as_ptr(), len: slice.len(), host: true, lifetime: PhantomData }
    }
}
impl<'a, T> From<&'a Vec<T>> for Input<'a, T> {
    fn from(vec: &'a Vec<T>) -> Self {
        vec.as_slice().into()
    }
}
impl<'a, T, const N: usize> From<&'a [T; N]> for Input<'a, T> {
    fn from(array: &'a [T; N]) -> Self {
        array.as_slice().into()
    }
}

/// Elements to write: a mutable slice, or device memory.
#[derive(Debug)]
pub struct Output<'a, T> {
    pub(crate) data: *mut T,
    pub(crate) len: usize,
    pub(crate) host: bool,
    lifetime: PhantomData<&'a mut [T]>,
}

impl<'a, T> Output<'a, T> {
    /// Device memory.
    ///
    /// # Safety
    /// `data` is the address of `len` elements that the device of the handle can write for all of `'a`, and until the
    /// work enqueued with them is done. Nothing else uses them meanwhile.
    pub unsafe fn device(data: *mut T, len: usize) -> Output<'a, T> {
        Output { data, len, host: false, lifetime: PhantomData }
    }
}
impl<'a, T> From<&'a mut [T]> for Output<'a, T> {
    fn from(slice: &'a mut [T]) -> Self {
        Output { data: slice.as_mut_ptr(), len: slice.len(), host: true, lifetime: PhantomData }
    }
}
impl<'a, T> From<&'a mut Vec<T>> for Output<'a, T> {
    fn from(vec: &'a mut Vec<T>) -> Self {
        vec.as_mut_slice().into()
    }
}
impl<'a, T, const N: usize> From<&'a mut [T; N]> for Output<'a, T> {
    fn from(array: &'a mut [T; N]) -> Self {
        array.as_mut_slice().into()
    }
}

fn contiguous(shape: [usize; 4]) -> [usize; 3] {
    let head = shape[3];
    let seqlen = shape[2].saturating_mul(head);
    [shape[1].saturating_mul(seqlen), seqlen, head]
}

/// Rows to read, `[batch, seqlen, heads, dim]`, the last dimension contiguous. Ragged: batch 1, seqlen the rows of the
/// whole buffer. Paged: batch the pages of the pool, seqlen the slots of a page.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a, T> {
    pub(crate) data: Input<'a, T>,
    pub(crate) shape: [usize; 4],
    pub(crate) strides: [usize; 3],
}

impl<'a, T: Element> Tensor<'a, T> {
    /// Contiguous in the order of `shape`.
    pub fn new(data: impl Into<Input<'a, T>>, shape: [usize; 4]) -> Tensor<'a, T> {
        Tensor { data: data.into(), shape, strides: contiguous(shape) }
    }
    /// With strides of batch, seqlen and heads in elements; 0 repeats.
    pub fn strided(data: impl Into<Input<'a, T>>, shape: [usize; 4], strides: [usize; 3]) -> Tensor<'a, T> {
        Tensor { data: data.into(), shape, strides }
    }
}

/// Rows to write; see [`Tensor`].
#[derive(Debug)]
pub struct TensorMut<'a, T> {
    pub(crate) data: Output<'a, T>,
    pub(crate) shape: [usize; 4],
    pub(crate) strides: [usize; 3],
}

impl<'a, T: Element> TensorMut<'a, T> {
    /// Contiguous in the order of `shape`.
    pub fn new(data: impl Into<Output<'a, T>>, shape: [usize; 4]) -> TensorMut<'a, T> {
        TensorMut { data: data.into(), shape, strides: contiguous(shape) }
    }
    /// With strides of batch, seqlen and heads in elements.
    pub fn strided(data: impl Into<Output<'a, T>>, shape: [usize; 4], strides: [usize; 3]) -> TensorMut<'a, T> {
        TensorMut { data: data.into(), shape, strides }
    }
}
