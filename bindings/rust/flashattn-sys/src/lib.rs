// SPDX-License-Identifier: Apache-2.0
//! Declarations of libflashattn. `flashattn.h` is the manual; names here are the C names.
//!
//! | feature | meaning |
//! |---|---|
//! | `link` (default) | linked at build time, found by `FLASHATTN_LIB_DIR` or pkg-config; [`LINKED`] has the functions |
//! | `static` | `link` with the archive |
//! | `load` | opened at run time: [`Api::open`] |
//!
//! `tests/layout.rs` makes a C program from these declarations and compares every size, offset, type, constant and
//! signature with the header.
#![allow(non_camel_case_types)]
#![warn(missing_debug_implementations)]

use std::os::raw::{c_char, c_void};

#[cfg(feature = "load")]
mod load;
#[cfg(feature = "load")]
pub use load::LoadError;

/// One struct as declared here, for the layout test: C name, size, fields with name, offset and Rust type.
#[doc(hidden)]
pub type StructLayout = (&'static str, usize, Vec<(&'static str, usize, &'static str)>);

macro_rules! constants {
    ($($name:ident: $type:ty = $value:expr;)*) => {
        $(#[allow(missing_docs)] pub const $name: $type = $value;)*
        #[doc(hidden)]
        pub const CONSTANTS: &[(&str, i64)] = &[$((stringify!($name), $name as i64)),*];
    };
}

macro_rules! structs {
    ($($(#[$attribute:meta])* struct $name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[$attribute])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name { $(#[allow(missing_docs)] pub $field: $type,)* }

            impl Default for $name {
                /// All zero, which means "off" or "default", but for `struct_size` where there is one.
                fn default() -> Self {
                    // SAFETY: integers, floats, pointers and optional functions are all valid when zero.
                    let mut value: Self = unsafe { std::mem::zeroed() };
                    value.set_struct_size();
                    value
                }
            }
        )*

        #[doc(hidden)]
        pub fn layouts() -> Vec<StructLayout> {
            vec![$({
                let value = std::mem::MaybeUninit::<$name>::uninit();
                let base = value.as_ptr();
                (
                    stringify!($name),
                    std::mem::size_of::<$name>(),
                    // SAFETY: addr_of! makes no reference and reads nothing.
                    vec![$((
                        stringify!($field),
                        unsafe { std::ptr::addr_of!((*base).$field) as usize } - base as usize,
                        stringify!($type),
                    )),*],
                )
            }),*]
        }
    };
}

macro_rules! sized {
    ($($name:ident),*) => { $(impl $name {
        fn set_struct_size(&mut self) { self.struct_size = std::mem::size_of::<Self>() as u32; }
    })* };
}
macro_rules! unsized_structs {
    ($($name:ident),*) => { $(impl $name {
        fn set_struct_size(&mut self) {}
    })* };
}

macro_rules! functions {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        #[cfg(feature = "link")]
        extern "C" {
            $($(#[$attribute])* pub fn $name($($argument: $type),*) $(-> $result)?;)*
        }

        /// The functions of one copy of the library.
        #[derive(Clone, Copy, Debug)]
        pub struct Api {
            $($(#[$attribute])* pub $name: unsafe extern "C" fn($($argument: $type),*) $(-> $result)?,)*
        }

        /// The functions this program is linked with.
        #[cfg(feature = "link")]
        pub static LINKED: Api = Api { $($name,)* };

        #[cfg(feature = "load")]
        impl Api {
            /// The function pointers that `find` gives, or the name of the first that it does not.
            ///
            /// # Safety
            /// What `find` gives must be the functions of a libflashattn of this version.
            unsafe fn from_symbols(find: &dyn Fn(&'static str) -> *mut c_void) -> Result<Api, &'static str> {
                Ok(Api { $($name: {
                    let symbol = find(stringify!($name));
                    if symbol.is_null() {
                        return Err(stringify!($name));
                    }
                    std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) $(-> $result)?>(symbol)
                },)* })
            }
        }

        #[doc(hidden)]
        #[allow(clippy::type_complexity)]
        pub const SIGNATURES: &[(&str, &[&str], &str)] =
            &[$((stringify!($name), &[$(stringify!($type)),*], concat!($(stringify!($result))?))),*];
    };
}

constants! {
    FLASHATTN_VERSION_MAJOR: u32 = 0;
    FLASHATTN_VERSION_MINOR: u32 = 1;
    FLASHATTN_VERSION_PATCH: u32 = 0;
    FLASHATTN_STATUS_OK: i32 = 0;
    FLASHATTN_STATUS_INVALID_ARGUMENT: i32 = 100;
    FLASHATTN_STATUS_NULL_POINTER: i32 = 101;
    FLASHATTN_STATUS_STRUCT_SIZE: i32 = 102;
    FLASHATTN_STATUS_WORKSPACE: i32 = 103;
    FLASHATTN_STATUS_ENVIRONMENT: i32 = 104;
    FLASHATTN_STATUS_INVALID_DATA: i32 = 105;
    FLASHATTN_STATUS_UNSUPPORTED: i32 = 200;
    FLASHATTN_STATUS_NEWER_STRUCT: i32 = 201;
    FLASHATTN_STATUS_NOT_BUILT: i32 = 202;
    FLASHATTN_STATUS_CAPTURING: i32 = 203;
    FLASHATTN_STATUS_OUT_OF_MEMORY: i32 = 300;
    FLASHATTN_STATUS_OUT_OF_THREADS: i32 = 301;
    FLASHATTN_STATUS_NO_DRIVER: i32 = 400;
    FLASHATTN_STATUS_DRIVER_TOO_OLD: i32 = 401;
    FLASHATTN_STATUS_NO_DEVICE: i32 = 402;
    FLASHATTN_STATUS_INVALID_DEVICE: i32 = 403;
    FLASHATTN_STATUS_DRIVER_ERROR: i32 = 404;
    FLASHATTN_STATUS_FORKED: i32 = 405;
    FLASHATTN_STATUS_INTERNAL: i32 = 500;
    FLASHATTN_BACKEND_AUTO: i32 = 0;
    FLASHATTN_BACKEND_CPU: i32 = 1;
    FLASHATTN_BACKEND_CUDA: i32 = 2;
    FLASHATTN_BACKEND_HIP: i32 = 3;
    FLASHATTN_DTYPE_F32: i32 = 1;
    FLASHATTN_DTYPE_F16: i32 = 2;
    FLASHATTN_DTYPE_BF16: i32 = 3;
    FLASHATTN_DTYPE_FP8_E4M3: i32 = 4;
    FLASHATTN_DTYPE_I8: i32 = 5;
    FLASHATTN_DTYPE_U8: i32 = 6;
    FLASHATTN_OP_FORWARD: i32 = 0;
    FLASHATTN_LAYOUT_DENSE: i32 = 0;
    FLASHATTN_LAYOUT_RAGGED: i32 = 1;
    FLASHATTN_LAYOUT_PAGED: i32 = 2;
    FLASHATTN_LAYOUT_PAGED_CSR: i32 = 3;
    FLASHATTN_FEATURE_WINDOW: u64 = 0x1;
    FLASHATTN_FEATURE_ALIBI: u64 = 0x2;
    FLASHATTN_FEATURE_SINKS: u64 = 0x4;
    FLASHATTN_FEATURE_SEQUSED_Q: u64 = 0x8;
    FLASHATTN_FEATURE_SEQUSED_KV: u64 = 0x10;
    FLASHATTN_FEATURE_DIAG_OFFSETS: u64 = 0x20;
    FLASHATTN_FLAG_BATCH_INVARIANT: u64 = 0x1;
    FLASHATTN_FLAG_REQUIRE_FAST: u64 = 0x2;
    FLASHATTN_FLAG_CU_SEQLENS_INT64: u64 = 0x4;
    FLASHATTN_PRECISION_IEEE: i32 = 0;
    FLASHATTN_PRECISION_TF32: i32 = 1;
    FLASHATTN_PRECISION_TF32X3: i32 = 2;
    FLASHATTN_LOG_ERROR: i32 = 1;
    FLASHATTN_LOG_INFO: i32 = 2;
    FLASHATTN_LOG_DEBUG: i32 = 3;
    FLASHATTN_OPTION_VALIDATE: u64 = 0x1;
}

/// A status code; 0 is success.
pub type flashattn_status_t = i32;
/// Receives log messages.
pub type flashattn_log_fn = unsafe extern "C" fn(user: *mut c_void, level: i32, message: *const c_char);
/// Host allocator.
pub type flashattn_alloc_fn = unsafe extern "C" fn(user: *mut c_void, size: usize, alignment: usize) -> *mut c_void;
/// Frees what the allocator gave.
pub type flashattn_free_fn =
    unsafe extern "C" fn(user: *mut c_void, memory: *mut c_void, size: usize, alignment: usize);
/// One task of a parallel_for.
pub type flashattn_task_fn = unsafe extern "C" fn(context: *mut c_void, index: i32);
/// Runs tasks on the caller's threads.
pub type flashattn_parallel_for_fn =
    unsafe extern "C" fn(user: *mut c_void, count: i32, task: flashattn_task_fn, context: *mut c_void);

/// One device of one backend; opaque.
#[repr(C)]
#[derive(Debug)]
pub struct flashattn_handle_t {
    _private: [u8; 0],
}
/// An immutable dispatch decision; opaque.
#[repr(C)]
#[derive(Debug)]
pub struct flashattn_plan_t {
    _private: [u8; 0],
}

structs! {
    /// One backend of this library. Output struct.
    struct flashattn_backend_info_t {
        struct_size: u32, backend: i32, status: i32, device_count: i32, kernel_count: i32, driver_version: i32,
        name: [c_char; 16], reason: [c_char; 232],
    }
    /// One device. Output struct.
    struct flashattn_device_info_t {
        struct_size: u32, backend: i32, ordinal: i32, compute_units: i32, capability_major: i32,
        capability_minor: i32, total_memory_bytes: u64, name: [c_char; 96], features: [c_char; 128],
    }
    /// One kernel of a backend. Output struct.
    struct flashattn_kernel_info_t {
        struct_size: u32, backend: i32, available: i32, reserved: i32, name: [c_char; 64], reason: [c_char; 184],
    }
    /// What `flashattn_create` takes.
    struct flashattn_options_t {
        struct_size: u32, backend: i32, device: i32, num_threads: i32, flags: u64, context: *mut c_void,
        log: Option<flashattn_log_fn>, log_user: *mut c_void, alloc: Option<flashattn_alloc_fn>,
        free: Option<flashattn_free_fn>, alloc_user: *mut c_void,
        parallel_for: Option<flashattn_parallel_for_fn>, parallel_for_user: *mut c_void, reserved: [u64; 4],
    }
    /// What an open handle is. Output struct.
    struct flashattn_handle_info_t {
        struct_size: u32, backend: i32, device: i32, num_threads: i32, name: [c_char; 96],
    }
    /// A class of calls.
    struct flashattn_problem_t {
        struct_size: u32, op: i32, dtype_q: i32, dtype_kv: i32, dtype_o: i32, dtype_bias: i32, layout_q: i32,
        layout_kv: i32, num_heads_q: i32, num_heads_kv: i32, head_dim: i32, head_dim_v: i32, max_batch: i32,
        max_seqlen_q: i32, max_seqlen_kv: i32, page_size: i32, max_total_q: i64, max_total_kv: i64, max_pages: i64,
        features: u64, flags: u64, softmax_scale: f32, softcap: f32, causal: i32, window_left: i32,
        window_right: i32, num_splits: i32, precision_f32: i32, reserved0: i32, kernel: [c_char; 64],
        reserved: [u64; 8],
    }
    /// What was decided. Output struct.
    struct flashattn_plan_info_t {
        struct_size: u32, backend: i32, device: i32, num_splits: i32, workspace_size: u64, workspace_alignment: u64,
        materialized_bytes: u64, base_alignment: i32, stride_alignment: i32, deterministic: i32,
        batch_invariant: i32, capturable: i32, reason_count: i32, kernel: [c_char; 64], generic_kernel: [c_char; 64],
    }
    /// A tensor of rows.
    struct flashattn_tensor_t {
        data: *mut c_void, stride_batch: i64, stride_seq: i64, stride_head: i64,
    }
    /// Bias or boolean mask.
    struct flashattn_bias_t {
        data: *mut c_void, stride_batch: i64, stride_head: i64, stride_q: i64, stride_kv: i64,
    }
    /// One f32 per sequence and head.
    struct flashattn_per_head_t {
        data: *const f32, stride_batch: i64, stride_head: i64,
    }
    /// The pointers, strides and actual sizes of one call.
    struct flashattn_call_t {
        struct_size: u32, batch: i32, seqlen_q: i32, seqlen_kv: i32, total_q: i64, total_kv: i64, num_pages: i64,
        diag_offset: i32, reserved0: i32, q: flashattn_tensor_t, k: flashattn_tensor_t, v: flashattn_tensor_t,
        o: flashattn_tensor_t, lse: flashattn_tensor_t, cu_seqlens_q: *const c_void, cu_seqlens_kv: *const c_void,
        seqused_q: *const i32, seqused_kv: *const i32, diag_offsets: *const i32, page_table: *const i32,
        page_table_stride: i64, page_table_width: i32, reserved1: i32, page_indptr: *const i32,
        page_indices: *const i32, bias: flashattn_bias_t, alibi_slopes: flashattn_per_head_t,
        sinks: flashattn_per_head_t, descale_q: flashattn_per_head_t, descale_k: flashattn_per_head_t,
        descale_v: flashattn_per_head_t, grad_o: flashattn_tensor_t, grad_q: flashattn_tensor_t,
        grad_k: flashattn_tensor_t, grad_v: flashattn_tensor_t, grad_bias: flashattn_bias_t, grad_sinks: *mut f32,
        reserved: [u64; 8],
    }
    /// Partial results and how to merge them.
    struct flashattn_combine_args_t {
        struct_size: u32, num_parts: i32, batch: i32, seqlen_q: i32, num_heads: i32, head_dim_v: i32,
        dtype_partial: i32, dtype_o: i32, o_partial: flashattn_tensor_t, o_partial_stride_part: i64,
        lse_partial: flashattn_tensor_t, lse_partial_stride_part: i64, o: flashattn_tensor_t,
        lse: flashattn_tensor_t, reserved: [u64; 4],
    }
}
sized!(
    flashattn_backend_info_t,
    flashattn_device_info_t,
    flashattn_kernel_info_t,
    flashattn_options_t,
    flashattn_handle_info_t,
    flashattn_problem_t,
    flashattn_plan_info_t,
    flashattn_call_t,
    flashattn_combine_args_t
);
unsized_structs!(flashattn_tensor_t, flashattn_bias_t, flashattn_per_head_t);

functions! {
    /// major * 1000000 + minor * 1000 + patch of the library.
    fn flashattn_version() -> u32;
    /// "major.minor.patch".
    fn flashattn_version_string() -> *const c_char;
    /// A short text for any status.
    fn flashattn_status_string(status: flashattn_status_t) -> *const c_char;
    /// The text of the calling thread's last error.
    fn flashattn_last_error() -> *const c_char;
    /// Copies it.
    fn flashattn_last_error_copy(buffer: *mut c_char, buffer_size: usize) -> usize;
    /// The driver's own code of the calling thread's last error.
    fn flashattn_last_driver_error() -> i32;
    /// Number of backends, built or not.
    fn flashattn_backend_count() -> i32;
    /// Describes a backend.
    fn flashattn_backend_info(index: i32, info: *mut flashattn_backend_info_t) -> flashattn_status_t;
    /// How many devices can be opened.
    fn flashattn_device_count(backend: i32, count: *mut i32) -> flashattn_status_t;
    /// Describes a device.
    fn flashattn_device_info(backend: i32, ordinal: i32, info: *mut flashattn_device_info_t) -> flashattn_status_t;
    /// Describes a kernel.
    fn flashattn_kernel_info(backend: i32, index: i32, info: *mut flashattn_kernel_info_t) -> flashattn_status_t;
    /// Sets defaults.
    fn flashattn_options_init(options: *mut flashattn_options_t);
    /// Opens a device.
    fn flashattn_create(options: *const flashattn_options_t, handle: *mut *mut flashattn_handle_t) -> flashattn_status_t;
    /// Gives up the caller's reference.
    fn flashattn_destroy(handle: *mut flashattn_handle_t);
    /// Describes an open handle.
    fn flashattn_handle_info(handle: *const flashattn_handle_t, info: *mut flashattn_handle_info_t) -> flashattn_status_t;
    /// Sets defaults.
    fn flashattn_problem_init(problem: *mut flashattn_problem_t);
    /// Picks kernels and fixes the workspace.
    fn flashattn_plan_create(
        handle: *mut flashattn_handle_t, problem: *const flashattn_problem_t, plan: *mut *mut flashattn_plan_t
    ) -> flashattn_status_t;
    /// Destroys a plan.
    fn flashattn_plan_destroy(plan: *mut flashattn_plan_t);
    /// Describes a plan.
    fn flashattn_plan_info(plan: *const flashattn_plan_t, info: *mut flashattn_plan_info_t) -> flashattn_status_t;
    /// Why a more specific kernel was not chosen.
    fn flashattn_plan_reason(plan: *const flashattn_plan_t, index: i32, reason: *mut *const c_char) -> flashattn_status_t;
    /// Sets defaults.
    fn flashattn_call_init(call: *mut flashattn_call_t);
    /// Fills in contiguous strides.
    fn flashattn_call_contiguous(problem: *const flashattn_problem_t, call: *mut flashattn_call_t) -> flashattn_status_t;
    /// Prepares a workspace.
    fn flashattn_workspace_init(
        plan: *const flashattn_plan_t, workspace: *mut c_void, workspace_size: usize, stream: *mut c_void
    ) -> flashattn_status_t;
    /// Computes O and LSE.
    fn flashattn_forward(
        plan: *const flashattn_plan_t, call: *const flashattn_call_t, workspace: *mut c_void, workspace_size: usize,
        stream: *mut c_void
    ) -> flashattn_status_t;
    /// The same with plan and workspace from the handle's caches.
    fn flashattn_attention(
        handle: *mut flashattn_handle_t, problem: *const flashattn_problem_t, call: *const flashattn_call_t,
        stream: *mut c_void
    ) -> flashattn_status_t;
    /// Sets defaults.
    fn flashattn_combine_args_init(args: *mut flashattn_combine_args_t);
    /// Merges partial results.
    fn flashattn_combine(
        handle: *mut flashattn_handle_t, args: *const flashattn_combine_args_t, stream: *mut c_void
    ) -> flashattn_status_t;
}
