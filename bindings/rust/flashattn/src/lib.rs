// SPDX-License-Identifier: Apache-2.0
//! Exact attention, `O = softmax(scale Q K^T + mask) V`, by libflashattn.
//!
//! ```
//! use flashattn::{Backend, Call, Handle, Options, Problem, Tensor, TensorMut};
//!
//! # fn main() -> Result<(), flashattn::Error> {
//! // Causal attention of 4 query heads over 2 KV heads, 128 rows, head dimension 64.
//! let (q, k, v) = (vec![0.0f32; 128 * 4 * 64], vec![0.0f32; 128 * 2 * 64], vec![1.5f32; 128 * 2 * 64]);
//! let mut o = vec![0.0f32; 128 * 4 * 64];
//! let handle = Handle::open(&Options::new().backend(Backend::Cpu))?;
//! let mut call = Call::new(
//!     Tensor::new(&q, [1, 128, 4, 64]),
//!     Tensor::new(&k, [1, 128, 2, 64]),
//!     Tensor::new(&v, [1, 128, 2, 64]),
//!     TensorMut::new(&mut o, [1, 128, 4, 64]),
//! );
//! handle.attention(&Problem::of(&call).causal(true), &mut call)?;
//! assert_eq!(o[0], 1.5);
//! # Ok(())
//! # }
//! ```
//!
//! An engine makes a [`Plan`] once and runs it, which allocates nothing. Tensors are borrowed, never copied.
//!
//! **Safety.** Slices are checked against their shapes and strides, tensors against each other and the problem, before the
//! library is called; lengths and page tables are checked by the library. Device memory enters at one place,
//! [`Input::device`] and [`Output::device`], which are unsafe. Host slices are refused by handles of a GPU.
//!
//! **Threads.** [`Handle`] and [`Plan`] are `Send` and `Sync`. A running call needs a [`Workspace`] of its own.
//!
//! **Features.** `link` (default), `static`, `load`: see `flashattn-sys`, whose C interface is re-exported as [`sys`].
#![warn(missing_docs, missing_debug_implementations)]

pub use flashattn_sys as sys;

mod call;
mod error;
mod handle;
mod library;
mod options;
mod plan;
mod problem;
mod tensor;

pub use call::Call;
pub use error::{Error, Status};
pub use handle::{Handle, HandleInfo};
pub use library::{BackendInfo, DeviceInfo, Library};
pub use options::{Backend, Options};
pub use plan::{Plan, PlanInfo, Workspace};
pub use problem::{Precision, Problem};
pub use tensor::{BFloat16, DType, Element, Float16, Input, Offset, Output, Tensor, TensorMut};
