// SPDX-License-Identifier: Apache-2.0
use crate::error::Error;
use crate::options::Backend;
use crate::sys;
use std::ffi::CStr;
use std::os::raw::c_char;

#[cfg(feature = "load")]
use crate::error::Status;

/// One copy of libflashattn: the one this program is linked with, or one opened at run time. Copies keep their state
/// apart.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    api: &'static sys::Api,
}

/// One backend of a library.
#[derive(Clone, Debug)]
pub struct BackendInfo {
    /// Which.
    pub backend: Backend,
    /// "cpu", "cuda", "hip".
    pub name: String,
    /// Devices that can be opened.
    pub device_count: i32,
    /// Why there are none; empty when there are.
    pub reason: String,
}

/// One device.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Of which backend.
    pub backend: Backend,
    /// What [`Options::device`](crate::Options::device) takes.
    pub ordinal: i32,
    /// Its name.
    pub name: String,
    /// Instruction sets or architecture.
    pub features: String,
    /// Cores, SMs or CUs.
    pub compute_units: i32,
    /// 0 where unknown.
    pub total_memory_bytes: u64,
}

impl Library {
    /// The library this program is linked with.
    #[cfg(feature = "link")]
    pub fn linked() -> Library {
        Library { api: &sys::LINKED }
    }

    /// Opens a library by path, or with `None` looks where `docs/loading.md` says: `FLASHATTN_LIBRARY`, beside the
    /// program, the system. It stays open for the life of the process.
    #[cfg(feature = "load")]
    pub fn open(path: Option<&std::path::Path>) -> Result<Library, Error> {
        let api = sys::Api::open(path).map_err(|error| Error::new(Status::NO_DRIVER, error.to_string()))?;
        Ok(Library { api: Box::leak(Box::new(api)) })
    }

    /// What [`Handle::open`](crate::Handle::open) uses: the linked library, or with `load` alone the one that
    /// `Library::open(None)` finds, looked for once.
    #[cfg(feature = "link")]
    pub fn of_program() -> Result<Library, Error> {
        Ok(Library::linked())
    }
    /// What [`Handle::open`](crate::Handle::open) uses: the linked library, or with `load` alone the one that
    /// `Library::open(None)` finds, looked for once.
    #[cfg(all(feature = "load", not(feature = "link")))]
    pub fn of_program() -> Result<Library, Error> {
        use std::sync::atomic::{AtomicPtr, Ordering};
        static FOUND: AtomicPtr<sys::Api> = AtomicPtr::new(std::ptr::null_mut());
        let found = FOUND.load(Ordering::Acquire);
        if !found.is_null() {
            // SAFETY: only leaked, never changed tables are stored below.
            return Ok(Library { api: unsafe { &*found } });
        }
        let library = Library::open(None)?;
        FOUND.store(library.api as *const sys::Api as *mut sys::Api, Ordering::Release);
        Ok(library)
    }

    /// The C functions.
    pub fn api(self) -> &'static sys::Api {
        self.api
    }

    /// "major.minor.patch".
    pub fn version(self) -> String {
        // SAFETY: a string in static storage.
        unsafe { text((self.api.flashattn_version_string)()) }
    }

    /// Every backend the library knows, built or not.
    pub fn backends(self) -> Vec<BackendInfo> {
        // SAFETY: index is below the count, info has its size.
        unsafe {
            (0..(self.api.flashattn_backend_count)())
                .filter_map(|index| {
                    let mut info = sys::flashattn_backend_info_t::default();
                    let status = (self.api.flashattn_backend_info)(index, &mut info);
                    (status == sys::FLASHATTN_STATUS_OK).then(|| BackendInfo {
                        backend: Backend::from_raw(info.backend),
                        name: fixed_text(&info.name),
                        device_count: info.device_count,
                        reason: fixed_text(&info.reason),
                    })
                })
                .collect()
        }
    }

    /// The devices of a backend that can be opened; of all with [`Backend::Auto`].
    pub fn devices(self, backend: Backend) -> Vec<DeviceInfo> {
        let mut all = Vec::new();
        for one in self.backends() {
            if backend != Backend::Auto && one.backend != backend {
                continue;
            }
            for ordinal in 0..one.device_count {
                let mut info = sys::flashattn_device_info_t::default();
                // SAFETY: info has its size.
                let status = unsafe { (self.api.flashattn_device_info)(one.backend as i32, ordinal, &mut info) };
                if status == sys::FLASHATTN_STATUS_OK {
                    all.push(DeviceInfo {
                        backend: one.backend,
                        ordinal,
                        name: fixed_text(&info.name),
                        features: fixed_text(&info.features),
                        compute_units: info.compute_units,
                        total_memory_bytes: info.total_memory_bytes,
                    });
                }
            }
        }
        all
    }
}

/// # Safety
/// A NUL-terminated string.
pub(crate) unsafe fn text(pointer: *const c_char) -> String {
    CStr::from_ptr(pointer).to_string_lossy().into_owned()
}

pub(crate) fn fixed_text(array: &[c_char]) -> String {
    let bytes: Vec<u8> = array.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
