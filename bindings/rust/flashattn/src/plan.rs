// SPDX-License-Identifier: Apache-2.0
use crate::call::Call;
use crate::error::{checked, Error, Status};
use crate::library::{fixed_text, text, Library};
use crate::options::Backend;
use crate::sys;
use std::alloc::Layout;
use std::os::raw::c_void;
use std::ptr::{null_mut, NonNull};

/// An immutable dispatch decision. It keeps its handle's device alive.
#[derive(Debug)]
pub struct Plan {
    pub(crate) library: Library,
    pub(crate) plan: NonNull<sys::flashattn_plan_t>,
    pub(crate) problem: sys::flashattn_problem_t,
    pub(crate) on_cpu: bool,
}

// SAFETY: flashattn.h: plans are immutable and may run concurrently.
unsafe impl Send for Plan {}
// SAFETY: as above.
unsafe impl Sync for Plan {}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: the plan is owned, and no call runs: calls borrow it.
        unsafe { (self.library.api().flashattn_plan_destroy)(self.plan.as_ptr()) }
    }
}

/// What was decided.
#[derive(Clone, Debug)]
pub struct PlanInfo {
    /// Where it runs.
    pub backend: Backend,
    /// The fast kernel.
    pub kernel: String,
    /// Runs calls whose bases or strides the fast one cannot take.
    pub generic_kernel: String,
    /// Most KV splits a call may use.
    pub num_splits: i32,
    /// Bytes a call needs.
    pub workspace_size: u64,
    /// Bytes, a power of two.
    pub workspace_alignment: u64,
    /// What a stored score and probability matrix would take.
    pub materialized_bytes: u64,
    /// Bitwise equal results run to run.
    pub deterministic: bool,
    /// See [`Problem::batch_invariant`](crate::Problem::batch_invariant).
    pub batch_invariant: bool,
    /// "kernel: reason" for every more specific kernel that was not chosen.
    pub reasons: Vec<String>,
}

/// Host memory that the calls of a plan work in, one at a time.
#[derive(Debug)]
pub struct Workspace {
    memory: *mut u8,
    layout: Layout,
    plan: *const sys::flashattn_plan_t,
}

// SAFETY: owned memory.
unsafe impl Send for Workspace {}

impl Drop for Workspace {
    fn drop(&mut self) {
        if !self.memory.is_null() {
            // SAFETY: allocated with this layout.
            unsafe { std::alloc::dealloc(self.memory, self.layout) }
        }
    }
}

impl Plan {
    /// What was decided.
    pub fn info(&self) -> PlanInfo {
        let mut info = sys::flashattn_plan_info_t::default();
        // SAFETY: the plan is alive and info has its size.
        unsafe { (self.library.api().flashattn_plan_info)(self.plan.as_ptr(), &mut info) };
        let reason = |index| {
            let mut reason = std::ptr::null();
            // SAFETY: a reason is valid as long as its plan.
            unsafe {
                let status = (self.library.api().flashattn_plan_reason)(self.plan.as_ptr(), index, &mut reason);
                (status == sys::FLASHATTN_STATUS_OK).then(|| text(reason))
            }
        };
        PlanInfo {
            backend: Backend::from_raw(info.backend),
            kernel: fixed_text(&info.kernel),
            generic_kernel: fixed_text(&info.generic_kernel),
            num_splits: info.num_splits,
            workspace_size: info.workspace_size,
            workspace_alignment: info.workspace_alignment,
            materialized_bytes: info.materialized_bytes,
            deterministic: info.deterministic != 0,
            batch_invariant: info.batch_invariant != 0,
            reasons: (0..info.reason_count).filter_map(reason).collect(),
        }
    }

    /// Host memory ready for [`Plan::forward`] of this plan on the CPU.
    pub fn workspace(&self) -> Result<Workspace, Error> {
        let info = self.info();
        let out_of_memory = || {
            Error::new(Status::OUT_OF_MEMORY, format!("workspace_size is {}; host memory ran out", info.workspace_size))
        };
        let size = usize::try_from(info.workspace_size).map_err(|_| out_of_memory())?;
        let alignment = (info.workspace_alignment as usize).max(1);
        let layout = Layout::from_size_align(size, alignment).map_err(|_| out_of_memory())?;
        let mut workspace = Workspace { memory: null_mut(), layout, plan: self.plan.as_ptr() };
        if size != 0 {
            // SAFETY: the size is not zero.
            workspace.memory = unsafe { std::alloc::alloc(layout) };
            if workspace.memory.is_null() {
                return Err(out_of_memory());
            }
        }
        if self.on_cpu {
            // SAFETY: the memory has the plan's size and alignment.
            checked(self.library, unsafe {
                (self.library.api().flashattn_workspace_init)(
                    self.plan.as_ptr(),
                    workspace.memory as *mut c_void,
                    size,
                    null_mut(),
                )
            })?;
        }
        Ok(workspace)
    }

    /// Computes O (and LSE) on the CPU; done on return. Allocates nothing.
    #[inline]
    pub fn forward(&self, call: &mut Call<'_>, workspace: &mut Workspace) -> Result<(), Error> {
        if !self.on_cpu || !std::ptr::eq(workspace.plan, self.plan.as_ptr()) {
            return Err(self.wrong_workspace());
        }
        call.check(&self.problem, true)?;
        // SAFETY: check() has held the call to the problem, and the workspace is this plan's.
        unsafe { self.run(call, workspace.memory as *mut c_void, workspace.layout.size(), null_mut()) }
    }

    /// Enqueues the call on a stream (`CUstream`, `hipStream_t`) of the handle's GPU.
    ///
    /// # Safety
    /// `workspace` is device memory of at least the plan's size and alignment, initialised once by
    /// `flashattn_workspace_init`, and no other running call's; `stream` is a stream of the device. Memory of the call
    /// outlives the work enqueued.
    pub unsafe fn forward_on(
        &self,
        call: &mut Call<'_>,
        workspace: *mut c_void,
        workspace_size: usize,
        stream: *mut c_void,
    ) -> Result<(), Error> {
        call.check(&self.problem, self.on_cpu)?;
        self.run(call, workspace, workspace_size, stream)
    }

    #[inline]
    unsafe fn run(
        &self,
        call: &Call<'_>,
        workspace: *mut c_void,
        size: usize,
        stream: *mut c_void,
    ) -> Result<(), Error> {
        checked(
            self.library,
            (self.library.api().flashattn_forward)(self.plan.as_ptr(), &call.raw, workspace, size, stream),
        )
    }

    #[cold]
    fn wrong_workspace(&self) -> Error {
        let text = if self.on_cpu {
            "workspace belongs to another plan; it must be made by workspace() of this one"
        } else {
            "workspace is host memory; a plan of a GPU runs by forward_on"
        };
        Error::new(Status::WORKSPACE, text.into())
    }

    /// The C pointer.
    pub fn as_ptr(&self) -> *const sys::flashattn_plan_t {
        self.plan.as_ptr()
    }
}

impl Workspace {
    /// Address and size, to use with the C functions.
    pub fn as_mut_ptr(&mut self) -> (*mut c_void, usize) {
        (self.memory as *mut c_void, self.layout.size())
    }
}
