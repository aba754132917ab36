// SPDX-License-Identifier: Apache-2.0
use crate::call::{clamp_i32, Call};
use crate::sys;

/// How products of `f32` inputs are formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Precision {
    /// In full.
    Ieee = sys::FLASHATTN_PRECISION_IEEE,
    /// Inputs may be rounded to TF32.
    Tf32 = sys::FLASHATTN_PRECISION_TF32,
    /// Three TF32 products, about `f32` accuracy.
    Tf32x3 = sys::FLASHATTN_PRECISION_TF32X3,
}

/// A class of calls: what a plan is made for. No pointers; the library checks every field.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    pub(crate) raw: sys::flashattn_problem_t,
}

impl Problem {
    /// The dtypes, layouts, heads, dims and features of a call, with its sizes as maxima.
    pub fn of(call: &Call<'_>) -> Problem {
        let c = &call.raw;
        let paged = call.paged();
        let page_size = if paged { clamp_i32(call.k.shape[1]) } else { 0 };
        let pages = if c.page_table.is_null() { c.num_pages } else { c.page_table_width.into() };
        let mut features = 0;
        for (there, bit) in [
            (!c.alibi_slopes.data.is_null(), sys::FLASHATTN_FEATURE_ALIBI),
            (!c.sinks.data.is_null(), sys::FLASHATTN_FEATURE_SINKS),
            (!c.seqused_q.is_null(), sys::FLASHATTN_FEATURE_SEQUSED_Q),
            (!c.seqused_kv.is_null(), sys::FLASHATTN_FEATURE_SEQUSED_KV),
            (!c.diag_offsets.is_null(), sys::FLASHATTN_FEATURE_DIAG_OFFSETS),
        ] {
            if there {
                features |= bit;
            }
        }
        let int64 = call.starts_q.int64 || call.starts_kv.int64;
        Problem {
            raw: sys::flashattn_problem_t {
                dtype_q: call.q.dtype,
                dtype_kv: call.k.dtype,
                dtype_o: call.o.dtype,
                dtype_bias: call.bias_dtype,
                layout_q: if call.starts_q.len != 0 {
                    sys::FLASHATTN_LAYOUT_RAGGED
                } else {
                    sys::FLASHATTN_LAYOUT_DENSE
                },
                layout_kv: if !c.page_table.is_null() {
                    sys::FLASHATTN_LAYOUT_PAGED
                } else if !c.page_indptr.is_null() {
                    sys::FLASHATTN_LAYOUT_PAGED_CSR
                } else if call.starts_kv.len != 0 {
                    sys::FLASHATTN_LAYOUT_RAGGED
                } else {
                    sys::FLASHATTN_LAYOUT_DENSE
                },
                num_heads_q: clamp_i32(call.q.shape[2]),
                num_heads_kv: clamp_i32(call.k.shape[2]),
                head_dim: clamp_i32(call.q.shape[3]),
                head_dim_v: clamp_i32(call.v.shape[3]),
                max_batch: c.batch,
                max_seqlen_q: if c.seqlen_q != 0 { c.seqlen_q } else { clamp_i32(c.total_q) },
                max_seqlen_kv: if c.seqlen_kv != 0 {
                    c.seqlen_kv
                } else if paged {
                    clamp_i32(pages.saturating_mul(page_size.into()))
                } else {
                    clamp_i32(c.total_kv)
                },
                page_size,
                max_total_q: c.total_q,
                max_total_kv: c.total_kv,
                max_pages: c.num_pages,
                features,
                flags: if int64 { sys::FLASHATTN_FLAG_CU_SEQLENS_INT64 } else { 0 },
                ..Default::default()
            },
        }
    }

    /// Bottom-right aligned; see [`Call::diag_offset`].
    pub fn causal(mut self, on: bool) -> Self {
        self.raw.causal = on.into();
        self
    }
    /// Both ends included; -1 is unbounded.
    pub fn window(mut self, left: i32, right: i32) -> Self {
        self.raw.features |= sys::FLASHATTN_FEATURE_WINDOW;
        self.raw.window_left = left;
        self.raw.window_right = right;
        self
    }
    /// 0: `1 / sqrt(head_dim)`.
    pub fn softmax_scale(mut self, scale: f32) -> Self {
        self.raw.softmax_scale = scale;
        self
    }
    /// `cap * tanh(score / cap)`; 0: off.
    pub fn softcap(mut self, cap: f32) -> Self {
        self.raw.softcap = cap;
        self
    }
    /// Maxima of the calls that one plan is to serve.
    pub fn max_sizes(mut self, batch: i32, seqlen_q: i32, seqlen_kv: i32) -> Self {
        self.raw.max_batch = batch;
        self.raw.max_seqlen_q = seqlen_q;
        self.raw.max_seqlen_kv = seqlen_kv;
        self
    }
    /// Likewise for ragged buffers.
    pub fn max_totals(mut self, total_q: i64, total_kv: i64) -> Self {
        self.raw.max_total_q = total_q;
        self.raw.max_total_kv = total_kv;
        self
    }
    /// Likewise for pages.
    pub fn max_pages(mut self, pages: i64) -> Self {
        self.raw.max_pages = pages;
        self
    }
    /// KV splits; 0: choose.
    pub fn num_splits(mut self, splits: i32) -> Self {
        self.raw.num_splits = splits;
        self
    }
    /// How products of `f32` inputs are formed.
    pub fn precision_f32(mut self, precision: Precision) -> Self {
        self.raw.precision_f32 = precision as i32;
        self
    }
    /// A row's bits do not depend on the batch around it.
    pub fn batch_invariant(self, on: bool) -> Self {
        self.flag(sys::FLASHATTN_FLAG_BATCH_INVARIANT, on)
    }
    /// An error rather than the generic kernel.
    pub fn require_fast(self, on: bool) -> Self {
        self.flag(sys::FLASHATTN_FLAG_REQUIRE_FAST, on)
    }
    /// Forces a kernel. A name longer than the field's 63 bytes is cut so that the library refuses it.
    pub fn kernel(mut self, name: &str) -> Self {
        self.raw.kernel = [0; 64];
        for (to, from) in self.raw.kernel.iter_mut().zip(name.bytes()) {
            *to = from as _;
        }
        self
    }

    /// The C struct.
    pub fn raw(&self) -> &sys::flashattn_problem_t {
        &self.raw
    }
    /// The C struct, for what has no setter.
    pub fn raw_mut(&mut self) -> &mut sys::flashattn_problem_t {
        &mut self.raw
    }

    fn flag(mut self, bit: u64, on: bool) -> Self {
        self.raw.flags = if on { self.raw.flags | bit } else { self.raw.flags & !bit };
        self
    }
}
