// SPDX-License-Identifier: Apache-2.0
use crate::error::Error;
use crate::sys;
use crate::tensor::{DType, Element, Input, Offset, Tensor, TensorMut};
use std::marker::PhantomData;
use std::os::raw::c_void;

/// What a tensor was when it was set: the C struct holds neither type nor extents.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) dtype: i32, // 0: not there
    pub(crate) shape: [i64; 4],
    len: usize,
    needed: i128, // elements from the first to the last
}

impl Seen {
    fn new(dtype: DType, shape: [usize; 4], strides: [usize; 3], len: usize) -> Seen {
        let last = |i: usize| (shape[i] as i128 - 1) * strides[i] as i128;
        let empty = shape[..3].contains(&0);
        Seen {
            dtype: dtype as i32,
            shape: shape.map(clamp_i64),
            len,
            needed: if empty { 0 } else { last(0) + last(1) + last(2) + shape[3] as i128 },
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Starts {
    pub(crate) len: usize, // 0: not ragged
    pub(crate) int64: bool,
}

/// Elements behind a pointer that is set.
#[derive(Clone, Copy, Debug, Default)]
struct Lengths {
    seqused_q: usize,
    seqused_kv: usize,
    diag_offsets: usize,
    page_table: usize,
    page_indptr: usize,
    page_indices: usize,
    bias: usize,
    alibi_slopes: usize,
    sinks: usize,
}

fn clamp_i64(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
pub(crate) fn clamp_i32(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// The tensors of one call. It borrows them; sizes follow from them: Q gives the batch, and ragged lengths do where
/// there are any.
#[derive(Debug)]
pub struct Call<'a> {
    pub(crate) raw: sys::flashattn_call_t,
    pub(crate) q: Seen,
    pub(crate) k: Seen,
    pub(crate) v: Seen,
    pub(crate) o: Seen,
    lse: Seen,
    pub(crate) starts_q: Starts,
    pub(crate) starts_kv: Starts,
    pub(crate) bias_dtype: i32,
    max_seqlens: [i32; 2],
    lengths: Lengths,
    last_page_index: i32, // largest entry of page_indptr
    host: bool,           // some memory is the host's
    device: bool,         // some is a device's
    checked: bool,        // false after raw_mut
    lifetime: PhantomData<(&'a [u8], &'a mut [u8])>,
}

// SAFETY: a call holds pointers made from shared and exclusive slices of plain values, which may go to other threads; the
// constructors of device memory ask for the same.
unsafe impl Send for Call<'_> {}

impl<'a> Call<'a> {
    /// O from Q, K and V.
    pub fn new<Q: Element, KV: Element, O: Element>(
        q: Tensor<'a, Q>,
        k: Tensor<'a, KV>,
        v: Tensor<'a, KV>,
        o: TensorMut<'a, O>,
    ) -> Call<'a> {
        let mut call = Call::empty();
        (call.raw.q, call.q) = call.input(q);
        (call.raw.k, call.k) = call.input(k);
        (call.raw.v, call.v) = call.input(v);
        (call.raw.o, call.o) = call.output(o);
        call.derive();
        call
    }

    /// Nothing set: for what is filled through [`Call::raw_mut`].
    pub fn empty() -> Call<'a> {
        Call {
            raw: Default::default(),
            q: Default::default(),
            k: Default::default(),
            v: Default::default(),
            o: Default::default(),
            lse: Default::default(),
            starts_q: Default::default(),
            starts_kv: Default::default(),
            bias_dtype: 0,
            max_seqlens: [0, 0],
            lengths: Default::default(),
            last_page_index: 0,
            host: false,
            device: false,
            checked: true,
            lifetime: PhantomData,
        }
    }

    /// Log-sum-exp too, `[batch, seqlen_q, heads, 1]`.
    pub fn lse(mut self, lse: TensorMut<'a, f32>) -> Self {
        (self.raw.lse, self.lse) = self.output(lse);
        self
    }
    /// Moves the diagonal of every sequence; top-left causal is `seqlen_q - seqlen_kv`.
    pub fn diag_offset(mut self, offset: i32) -> Self {
        self.raw.diag_offset = offset;
        self
    }
    /// Ragged Q: `[batch + 1]` starts of the sequences.
    pub fn cu_seqlens_q<I: Offset>(mut self, starts: impl Into<Input<'a, I>>) -> Self {
        let starts = self.seen(starts.into());
        self.raw.cu_seqlens_q = starts.data as *const c_void;
        self.starts_q = Starts { len: starts.len, int64: I::INT64 };
        self.derive();
        self
    }
    /// Ragged K and V, likewise.
    pub fn cu_seqlens_kv<I: Offset>(mut self, starts: impl Into<Input<'a, I>>) -> Self {
        let starts = self.seen(starts.into());
        self.raw.cu_seqlens_kv = starts.data as *const c_void;
        self.starts_kv = Starts { len: starts.len, int64: I::INT64 };
        self.derive();
        self
    }
    /// Bounds on the lengths of ragged and paged sequences; 0: what the problem has.
    pub fn max_seqlens(mut self, seqlen_q: i32, seqlen_kv: i32) -> Self {
        self.max_seqlens = [seqlen_q, seqlen_kv];
        self.derive();
        self
    }
    /// `[batch]`: queries of each sequence that count.
    pub fn seqused_q(mut self, lengths: impl Into<Input<'a, i32>>) -> Self {
        let lengths = self.seen(lengths.into());
        self.raw.seqused_q = lengths.data;
        self.lengths.seqused_q = lengths.len;
        self
    }
    /// `[batch]`: keys of each sequence that count. Needed with pages.
    pub fn seqused_kv(mut self, lengths: impl Into<Input<'a, i32>>) -> Self {
        let lengths = self.seen(lengths.into());
        self.raw.seqused_kv = lengths.data;
        self.lengths.seqused_kv = lengths.len;
        self
    }
    /// `[batch]`: added to `diag_offset` of each sequence.
    pub fn diag_offsets(mut self, offsets: impl Into<Input<'a, i32>>) -> Self {
        let offsets = self.seen(offsets.into());
        self.raw.diag_offsets = offsets.data;
        self.lengths.diag_offsets = offsets.len;
        self
    }
    /// Paged K and V: sequence `b`'s pages are entries `b * stride .. b * stride + width`.
    pub fn page_table(mut self, entries: impl Into<Input<'a, i32>>, width: i32, stride: i64) -> Self {
        let entries = self.seen(entries.into());
        self.raw.page_table = entries.data;
        self.raw.page_table_width = width;
        self.raw.page_table_stride = stride;
        self.lengths.page_table = entries.len;
        self.derive();
        self
    }
    /// Paged K and V: sequence `b`'s pages are `indices[indptr[b]..indptr[b + 1]]`.
    pub fn page_csr(mut self, indptr: impl Into<Input<'a, i32>>, indices: impl Into<Input<'a, i32>>) -> Self {
        let indptr = self.seen(indptr.into());
        let indices = self.seen(indices.into());
        self.lengths.page_indices = indices.len;
        if indptr.host {
            // SAFETY: a host input is a slice.
            let starts = unsafe { std::slice::from_raw_parts(indptr.data, indptr.len) };
            self.last_page_index = starts.iter().copied().max().unwrap_or(0);
        }
        self.raw.page_indptr = indptr.data;
        self.raw.page_indices = indices.data;
        self.lengths.page_indptr = indptr.len;
        self.derive();
        self
    }
    /// Added to the scores (`f32`, `Float16`, `BFloat16`), or a boolean mask (`u8`, non-zero is visible). Strides of
    /// batch, heads, queries and keys in elements; 0 repeats.
    pub fn bias<T: Element>(mut self, values: impl Into<Input<'a, T>>, strides: [usize; 4]) -> Self {
        let values = self.seen(values.into());
        let [stride_batch, stride_head, stride_q, stride_kv] = strides.map(clamp_i64);
        self.raw.bias =
            sys::flashattn_bias_t { data: values.data as *mut c_void, stride_batch, stride_head, stride_q, stride_kv };
        self.bias_dtype = T::DTYPE as i32;
        self.lengths.bias = values.len;
        self
    }
    /// ALiBi slopes with strides of batch and heads: `[0, 1]` is one per head.
    pub fn alibi_slopes(mut self, slopes: impl Into<Input<'a, f32>>, strides: [usize; 2]) -> Self {
        (self.raw.alibi_slopes, self.lengths.alibi_slopes) = self.per_head(slopes.into(), strides);
        self
    }
    /// Sinks, likewise.
    pub fn sinks(mut self, sinks: impl Into<Input<'a, f32>>, strides: [usize; 2]) -> Self {
        (self.raw.sinks, self.lengths.sinks) = self.per_head(sinks.into(), strides);
        self
    }

    /// The C struct.
    pub fn raw(&self) -> &sys::flashattn_call_t {
        &self.raw
    }
    /// The C struct, for what has no setter. From here on nothing is checked by this binding.
    ///
    /// # Safety
    /// The call must be as `flashattn.h` says when it is run.
    pub unsafe fn raw_mut(&mut self) -> &mut sys::flashattn_call_t {
        self.checked = false;
        &mut self.raw
    }

    fn seen<T>(&mut self, input: Input<'a, T>) -> Input<'a, T> {
        self.host |= input.host;
        self.device |= !input.host;
        input
    }
    fn input<T: Element>(&mut self, t: Tensor<'a, T>) -> (sys::flashattn_tensor_t, Seen) {
        self.seen(t.data);
        (raw_tensor(t.data.data as *mut c_void, t.strides), Seen::new(T::DTYPE, t.shape, t.strides, t.data.len))
    }
    fn output<T: Element>(&mut self, t: TensorMut<'a, T>) -> (sys::flashattn_tensor_t, Seen) {
        self.host |= t.data.host;
        self.device |= !t.data.host;
        (raw_tensor(t.data.data as *mut c_void, t.strides), Seen::new(T::DTYPE, t.shape, t.strides, t.data.len))
    }
    fn per_head(&mut self, values: Input<'a, f32>, strides: [usize; 2]) -> (sys::flashattn_per_head_t, usize) {
        self.seen(values);
        let [stride_batch, stride_head] = strides.map(clamp_i64);
        (sys::flashattn_per_head_t { data: values.data, stride_batch, stride_head }, values.len)
    }

    pub(crate) fn paged(&self) -> bool {
        !self.raw.page_table.is_null() || !self.raw.page_indptr.is_null()
    }

    /// Sizes of the C struct from what is known so far.
    fn derive(&mut self) {
        let ragged = |starts: Starts| starts.len != 0;
        let starts = if ragged(self.starts_q) { self.starts_q } else { self.starts_kv };
        let c = &mut self.raw;
        let paged = !c.page_table.is_null() || !c.page_indptr.is_null();
        c.batch = clamp_i32(if starts.len != 0 { clamp_i64(starts.len) - 1 } else { self.q.shape[0] });
        c.seqlen_q = if ragged(self.starts_q) { self.max_seqlens[0] } else { clamp_i32(self.q.shape[1]) };
        c.total_q = if ragged(self.starts_q) { self.q.shape[1] } else { 0 };
        let bounded = ragged(self.starts_kv) || paged;
        c.seqlen_kv = if bounded { self.max_seqlens[1] } else { clamp_i32(self.k.shape[1]) };
        c.total_kv = if ragged(self.starts_kv) { self.k.shape[1] } else { 0 };
        c.num_pages = if paged { self.k.shape[0] } else { 0 };
    }

    /// The first disagreement between slices, tensors, problem and the kind of device.
    #[inline]
    pub(crate) fn check(&self, p: &sys::flashattn_problem_t, on_cpu: bool) -> Result<(), Error> {
        if !self.checked {
            return Ok(());
        }
        if on_cpu && self.device || !on_cpu && self.host {
            return Err(wrong_memory(on_cpu));
        }
        let dtype_o = if p.dtype_o != 0 { p.dtype_o } else { p.dtype_q };
        let dim_v = if p.head_dim_v != 0 { p.head_dim_v } else { p.head_dim };
        tensor("q", &self.q, (p.dtype_q, "dtype_q"), (p.num_heads_q, "num_heads_q"), (p.head_dim, "head_dim"))?;
        tensor("k", &self.k, (p.dtype_kv, "dtype_kv"), (p.num_heads_kv, "num_heads_kv"), (p.head_dim, "head_dim"))?;
        tensor("v", &self.v, (p.dtype_kv, "dtype_kv"), (p.num_heads_kv, "num_heads_kv"), (dim_v, "head_dim_v"))?;
        tensor("o", &self.o, (dtype_o, "dtype_o"), (p.num_heads_q, "num_heads_q"), (dim_v, "head_dim_v"))?;
        alike("v", &self.v, "that of k", &self.k)?;
        alike("o", &self.o, "that of q", &self.q)?;
        if self.lse.dtype != 0 {
            let f32 = (sys::FLASHATTN_DTYPE_F32, "f32");
            tensor("lse", &self.lse, f32, (p.num_heads_q, "num_heads_q"), (1, "that of LSE"))?;
            alike("lse", &self.lse, "that of q", &self.q)?;
        }
        let c = &self.raw;
        let batch = i128::from(c.batch);
        let paged = self.paged();
        if paged {
            equal("k", "seqlen", self.k.shape[1], "page_size", p.page_size.into())?;
        } else if self.starts_kv.len == 0 {
            equal("k", "batch", self.k.shape[0], "that of the call", c.batch.into())?;
        }
        if self.starts_q.len == 0 {
            equal("q", "batch", self.q.shape[0], "that of the call", c.batch.into())?;
        }
        if self.starts_q.len != 0 || self.starts_kv.len != 0 {
            self.check_starts(p)?;
        }
        let l = &self.lengths;
        list("seqused_q", c.seqused_q, l.seqused_q, batch)?;
        list("seqused_kv", c.seqused_kv, l.seqused_kv, batch)?;
        list("diag_offsets", c.diag_offsets, l.diag_offsets, batch)?;
        if paged {
            let entries = (batch - 1) * i128::from(c.page_table_stride) + i128::from(c.page_table_width);
            list("page_table", c.page_table, l.page_table, entries)?;
            list("page_indptr", c.page_indptr, l.page_indptr, batch + 1)?;
            list("page_indices", c.page_indices, l.page_indices, self.last_page_index.into())?;
        }
        let heads = i128::from(p.num_heads_q);
        if self.bias_dtype != 0 {
            equal("bias", "dtype", self.bias_dtype.into(), "dtype_bias", p.dtype_bias.into())?;
            let b = &c.bias;
            let last = |extent: i128, stride: i64| (extent - 1) * i128::from(stride);
            let needed = last(batch, b.stride_batch)
                + last(heads, b.stride_head)
                + last(c.seqlen_q.into(), b.stride_q)
                // Paged and ragged keys reach as far as their longest sequence may.
                + last((if c.seqlen_kv != 0 { c.seqlen_kv } else { p.max_seqlen_kv }).into(), b.stride_kv)
                + 1;
            list("bias", b.data, l.bias, needed)?;
        }
        per_head("alibi_slopes", &c.alibi_slopes, l.alibi_slopes, batch, heads)?;
        per_head("sinks", &c.sinks, l.sinks, batch, heads)
    }

    fn check_starts(&self, p: &sys::flashattn_problem_t) -> Result<(), Error> {
        let bits = |starts: Starts| if starts.int64 { 64 } else { 32 };
        let must = if p.flags & sys::FLASHATTN_FLAG_CU_SEQLENS_INT64 != 0 { 64 } else { 32 };
        for (name, starts) in [("cu_seqlens_q", self.starts_q), ("cu_seqlens_kv", self.starts_kv)] {
            if starts.len != 0 {
                equal(name, "elements", clamp_i64(starts.len), "batch + 1", i64::from(self.raw.batch) + 1)?;
                equal(name, "bits", bits(starts), "what the problem's flags say", must)?;
            }
        }
        Ok(())
    }
}

fn raw_tensor(data: *mut c_void, strides: [usize; 3]) -> sys::flashattn_tensor_t {
    let [stride_batch, stride_seq, stride_head] = strides.map(clamp_i64);
    sys::flashattn_tensor_t { data, stride_batch, stride_seq, stride_head }
}

#[cold]
fn wrong_memory(on_cpu: bool) -> Error {
    let text = if on_cpu {
        "the call has device memory; the handle's device is the CPU"
    } else {
        "the call has host slices; the handle's device is a GPU, which needs device memory"
    };
    Error::new(crate::Status::INVALID_ARGUMENT, text.into())
}

#[inline]
fn equal(field: &str, what: &str, is: i64, of: &str, must: i64) -> Result<(), Error> {
    if is == must {
        Ok(())
    } else {
        Err(Error::mismatch(field, what, is.into(), of, must.into()))
    }
}

#[inline]
fn tensor(name: &str, t: &Seen, dtype: (i32, &str), heads: (i32, &str), dim: (i32, &str)) -> Result<(), Error> {
    if t.needed > t.len as i128 {
        return Err(Error::mismatch(name, "elements", t.len as i128, "what shape and strides need", t.needed));
    }
    equal(name, "dtype", t.dtype.into(), dtype.1, dtype.0.into())?;
    equal(name, "heads", t.shape[2], heads.1, heads.0.into())?;
    equal(name, "dim", t.shape[3], dim.1, dim.0.into())
}

#[inline]
fn alike(name: &str, t: &Seen, of: &str, other: &Seen) -> Result<(), Error> {
    equal(name, "batch", t.shape[0], of, other.shape[0])?;
    equal(name, "seqlen", t.shape[1], of, other.shape[1])
}

#[inline]
fn list<T>(name: &str, data: *const T, len: usize, needed: i128) -> Result<(), Error> {
    if data.is_null() || needed <= len as i128 {
        Ok(())
    } else {
        Err(Error::mismatch(name, "elements", len as i128, "what the batch and its strides need", needed))
    }
}

#[inline]
fn per_head(name: &str, p: &sys::flashattn_per_head_t, len: usize, batch: i128, heads: i128) -> Result<(), Error> {
    let needed = (batch - 1) * i128::from(p.stride_batch) + (heads - 1) * i128::from(p.stride_head) + 1;
    list(name, p.data, len, needed)
}
