// SPDX-License-Identifier: Apache-2.0
use crate::library::Library;
use crate::sys;
use std::fmt;

/// A `FLASHATTN_STATUS_*` other than success. Its hundreds digit is the class: 1 argument, 2 unsupported, 3 resource,
/// 4 driver and device, 5 internal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

impl Status {
    /// A value breaks a rule.
    pub const INVALID_ARGUMENT: Status = Status(sys::FLASHATTN_STATUS_INVALID_ARGUMENT);
    /// A pointer is missing.
    pub const NULL_POINTER: Status = Status(sys::FLASHATTN_STATUS_NULL_POINTER);
    /// Workspace too small or misaligned.
    pub const WORKSPACE: Status = Status(sys::FLASHATTN_STATUS_WORKSPACE);
    /// An environment variable has an unknown value.
    pub const ENVIRONMENT: Status = Status(sys::FLASHATTN_STATUS_ENVIRONMENT);
    /// Lengths or page indices in memory break a rule.
    pub const INVALID_DATA: Status = Status(sys::FLASHATTN_STATUS_INVALID_DATA);
    /// No kernel of this backend takes this problem or call.
    pub const UNSUPPORTED: Status = Status(sys::FLASHATTN_STATUS_UNSUPPORTED);
    /// The library was built without this backend.
    pub const NOT_BUILT: Status = Status(sys::FLASHATTN_STATUS_NOT_BUILT);
    /// Host or device memory ran out.
    pub const OUT_OF_MEMORY: Status = Status(sys::FLASHATTN_STATUS_OUT_OF_MEMORY);
    /// The vendor's driver could not be opened; also when libflashattn itself could not.
    pub const NO_DRIVER: Status = Status(sys::FLASHATTN_STATUS_NO_DRIVER);
    /// No usable device.
    pub const NO_DEVICE: Status = Status(sys::FLASHATTN_STATUS_NO_DEVICE);
    /// The device ordinal does not exist.
    pub const INVALID_DEVICE: Status = Status(sys::FLASHATTN_STATUS_INVALID_DEVICE);
}

/// Why something failed: field, value and rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    driver_error: i32,
    text: String,
}

impl Error {
    /// What kind of failure.
    pub fn status(&self) -> Status {
        self.status
    }
    /// The driver's own code (`CUresult`, `hipError_t`), 0 where no driver was involved.
    pub fn driver_error(&self) -> i32 {
        self.driver_error
    }
    /// The text, which names field, value and rule.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn new(status: Status, text: String) -> Error {
        Error { status, driver_error: 0, text }
    }

    /// A rule of this binding that does not hold: "`field` has `what` `is`; `of` is `must`".
    #[cold]
    pub(crate) fn mismatch(field: &str, what: &str, is: i128, of: &str, must: i128) -> Error {
        Error::new(Status::INVALID_ARGUMENT, format!("{} has {} {}; {} is {}", field, what, is, of, must))
    }

    /// What the library's last call on this thread left behind.
    #[cold]
    fn last(library: Library, status: i32) -> Error {
        // SAFETY: neither function can fail.
        let driver_error = unsafe { (library.api().flashattn_last_driver_error)() };
        // SAFETY: the text is valid until the next failing call on this thread, and copied before.
        let text = unsafe { crate::library::text((library.api().flashattn_last_error)()) };
        Error { status: Status(status), driver_error, text }
    }
}

#[inline]
pub(crate) fn checked(library: Library, status: i32) -> Result<(), Error> {
    if status == sys::FLASHATTN_STATUS_OK {
        Ok(())
    } else {
        Err(Error::last(library, status))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
impl std::error::Error for Error {}
