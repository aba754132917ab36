// SPDX-License-Identifier: Apache-2.0
use crate::sys;

/// A backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Backend {
    /// A GPU when one can be opened, else the CPU.
    Auto = sys::FLASHATTN_BACKEND_AUTO,
    /// The CPU.
    Cpu = sys::FLASHATTN_BACKEND_CPU,
    /// NVIDIA GPUs.
    Cuda = sys::FLASHATTN_BACKEND_CUDA,
    /// AMD GPUs.
    Hip = sys::FLASHATTN_BACKEND_HIP,
}

impl Backend {
    pub(crate) fn from_raw(value: i32) -> Backend {
        match value {
            sys::FLASHATTN_BACKEND_CPU => Backend::Cpu,
            sys::FLASHATTN_BACKEND_CUDA => Backend::Cuda,
            sys::FLASHATTN_BACKEND_HIP => Backend::Hip,
            _ => Backend::Auto,
        }
    }
}

/// What to open.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub(crate) raw: sys::flashattn_options_t,
}

impl Options {
    /// The best device, threads as the machine has.
    pub fn new() -> Options {
        Options::default()
    }
    /// Which backend.
    pub fn backend(mut self, backend: Backend) -> Options {
        self.raw.backend = backend as i32;
        self
    }
    /// Which device of it.
    pub fn device(mut self, ordinal: i32) -> Options {
        self.raw.device = ordinal;
        self
    }
    /// CPU: threads per call, the caller's included; 0: as many as processors.
    pub fn num_threads(mut self, threads: i32) -> Options {
        self.raw.num_threads = threads;
        self
    }
    /// Check pointers, lengths and page indices on the device too.
    pub fn validate(mut self, on: bool) -> Options {
        self.raw.flags = if on { sys::FLASHATTN_OPTION_VALIDATE } else { 0 };
        self
    }
}
