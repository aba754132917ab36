// SPDX-License-Identifier: Apache-2.0
//! Opening the library at run time; docs/loading.md has the rules.

use crate::{Api, FLASHATTN_VERSION_MAJOR, FLASHATTN_VERSION_MINOR};
use std::ffi::{CStr, CString, OsString};
use std::os::raw::{c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{env, fmt};

const NAME: &str = "libflashattn.so.0";
const RTLD_NOW: c_int = 2;
const RTLD_LOCAL: c_int = 0;

#[link(name = "dl")]
extern "C" {
    fn dlopen(filename: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn dlerror() -> *mut c_char;
}

/// Why no library was opened: what was tried, and the loader's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError(String);

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for LoadError {}

impl Api {
    /// Opens `path`, or what the environment variable `FLASHATTN_LIBRARY` names, or the copy packaged with the
    /// program, or the system's `libflashattn.so.0`. It stays open for the life of the process.
    pub fn open(path: Option<&Path>) -> Result<Api, LoadError> {
        if let Some(path) = path {
            return open_file(path).map_err(LoadError);
        }
        if let Some(path) = named_by_environment() {
            return open_file(Path::new(&path)).map_err(|text| LoadError(format!("FLASHATTN_LIBRARY: {}", text)));
        }
        let packaged = packaged_places();
        if let Some(path) = packaged.iter().find(|path| path.exists()) {
            return open_file(path).map_err(LoadError);
        }
        open_file(Path::new(NAME)).map_err(|text| {
            let places: Vec<String> = packaged.iter().map(|path| path.display().to_string()).collect();
            LoadError(format!(
                "no libflashattn: FLASHATTN_LIBRARY is not set; there is no {}; {}",
                places.join(", no "),
                text
            ))
        })
    }
}

fn named_by_environment() -> Option<OsString> {
    env::var_os("FLASHATTN_LIBRARY").filter(|path| !path.is_empty())
}

fn packaged_places() -> Vec<PathBuf> {
    let program = env::current_exe().unwrap_or_default();
    let directory = program.parent().unwrap_or_else(|| Path::new("."));
    vec![directory.join(NAME), directory.join("../lib").join(NAME)]
}

fn open_file(path: &Path) -> Result<Api, String> {
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| format!("{} is no file name: it holds a NUL", path.display()))?;
    // SAFETY: name is a string; opening a library runs its start-up code, and libflashattn has none.
    let library = unsafe { dlopen(name.as_ptr(), RTLD_NOW | RTLD_LOCAL) };
    if library.is_null() {
        // SAFETY: dlerror gives a string or NULL.
        let text = unsafe {
            let text = dlerror();
            if text.is_null() {
                "unknown error".into()
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        };
        let shown = path.display().to_string();
        return Err(if text.contains(&shown) { text } else { format!("{}: {}", shown, text) });
    }
    let find = |symbol: &'static str| {
        let symbol = CString::new(symbol).expect("names of functions hold no NUL");
        // SAFETY: library is open and symbol a string.
        unsafe { dlsym(library, symbol.as_ptr()) }
    };
    let version = find("flashattn_version");
    if version.is_null() {
        return Err(format!("{} has no function flashattn_version", path.display()));
    }
    // SAFETY: the function of this name takes nothing and returns a number in every version.
    let version = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u32>(version)() };
    if version / 1000 != FLASHATTN_VERSION_MAJOR * 1000 + FLASHATTN_VERSION_MINOR {
        return Err(format!(
            "{} is libflashattn {}.{}.{}; this binding needs {}.{}",
            path.display(),
            version / 1_000_000,
            version / 1000 % 1000,
            version % 1000,
            FLASHATTN_VERSION_MAJOR,
            FLASHATTN_VERSION_MINOR
        ));
    }
    // SAFETY: the version says that these are the functions declared here.
    unsafe { Api::from_symbols(&find) }.map_err(|name| format!("{} has no function {}", path.display(), name))
}
