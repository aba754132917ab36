// SPDX-License-Identifier: Apache-2.0
use crate::call::Call;
use crate::error::{checked, Error};
use crate::library::{fixed_text, Library};
use crate::options::{Backend, Options};
use crate::plan::Plan;
use crate::problem::Problem;
use crate::sys;
use std::os::raw::c_void;
use std::ptr::{null_mut, NonNull};

/// One device of one backend.
#[derive(Debug)]
pub struct Handle {
    library: Library,
    handle: NonNull<sys::flashattn_handle_t>,
    on_cpu: bool,
}

// SAFETY: flashattn.h: handles may be used from any number of threads at once.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the reference is owned, and no call runs: calls borrow the handle. Plans keep their own.
        unsafe { (self.library.api().flashattn_destroy)(self.handle.as_ptr()) }
    }
}

/// What an open handle is.
#[derive(Clone, Debug)]
pub struct HandleInfo {
    /// Its backend.
    pub backend: Backend,
    /// Device ordinal.
    pub device: i32,
    /// CPU threads per call; 0 on a GPU.
    pub num_threads: i32,
    /// The device's name.
    pub name: String,
}

impl Handle {
    /// Opens a device of [`Library::of_program`].
    pub fn open(options: &Options) -> Result<Handle, Error> {
        Handle::open_in(Library::of_program()?, options)
    }

    /// Opens a device of a library.
    pub fn open_in(library: Library, options: &Options) -> Result<Handle, Error> {
        let mut handle = null_mut();
        // SAFETY: options hold no pointers.
        checked(library, unsafe { (library.api().flashattn_create)(&options.raw, &mut handle) })?;
        let handle = NonNull::new(handle).expect("a handle on success");
        let mut handle = Handle { library, handle, on_cpu: false };
        handle.on_cpu = handle.info().backend == Backend::Cpu;
        Ok(handle)
    }

    /// What it is.
    pub fn info(&self) -> HandleInfo {
        let mut info = sys::flashattn_handle_info_t::default();
        // SAFETY: the handle is alive and info has its size.
        unsafe { (self.library.api().flashattn_handle_info)(self.handle.as_ptr(), &mut info) };
        HandleInfo {
            backend: Backend::from_raw(info.backend),
            device: info.device,
            num_threads: info.num_threads,
            name: fixed_text(&info.name),
        }
    }

    /// Picks kernels for a problem.
    pub fn plan(&self, problem: &Problem) -> Result<Plan, Error> {
        let mut plan = null_mut();
        // SAFETY: the handle is alive; a problem has no pointers.
        checked(self.library, unsafe {
            (self.library.api().flashattn_plan_create)(self.handle.as_ptr(), &problem.raw, &mut plan)
        })?;
        let plan = NonNull::new(plan).expect("a plan on success");
        Ok(Plan { library: self.library, plan, problem: problem.raw, on_cpu: self.on_cpu })
    }

    /// Computes O (and LSE) with plan and workspace from the handle's caches. On the CPU it is done on return, on a GPU
    /// enqueued on the legacy default stream.
    #[inline]
    pub fn attention(&self, problem: &Problem, call: &mut Call<'_>) -> Result<(), Error> {
        // SAFETY: the default stream is always one of the device's; device memory was promised to outlive the work.
        unsafe { self.attention_on(problem, call, null_mut()) }
    }

    /// The same on a stream (`CUstream`, `hipStream_t`).
    ///
    /// # Safety
    /// `stream` is a stream of the handle's device.
    #[inline]
    pub unsafe fn attention_on(
        &self,
        problem: &Problem,
        call: &mut Call<'_>,
        stream: *mut c_void,
    ) -> Result<(), Error> {
        call.check(&problem.raw, self.on_cpu)?;
        checked(
            self.library,
            (self.library.api().flashattn_attention)(self.handle.as_ptr(), &problem.raw, &call.raw, stream),
        )
    }

    /// Merges partial results over disjoint sets of keys.
    ///
    /// # Safety
    /// `args` and `stream` are as `flashattn.h` says.
    pub unsafe fn combine(&self, args: &sys::flashattn_combine_args_t, stream: *mut c_void) -> Result<(), Error> {
        checked(self.library, (self.library.api().flashattn_combine)(self.handle.as_ptr(), args, stream))
    }

    /// The C pointer.
    pub fn as_ptr(&self) -> *mut sys::flashattn_handle_t {
        self.handle.as_ptr()
    }
}
