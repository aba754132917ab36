// SPDX-License-Identifier: Apache-2.0
//! Opening the library at run time, as docs/loading.md says. FLASHATTN_LIB_DIR is the directory of the library to test.
#![cfg(feature = "load")]

use flashattn::{Backend, Handle, Library, Options, Status};
use std::path::{Path, PathBuf};
use std::process::Command;

fn library() -> PathBuf {
    let directory = std::env::var("FLASHATTN_LIB_DIR").expect("FLASHATTN_LIB_DIR names the directory of the library");
    Path::new(&directory).join("libflashattn.so.0")
}

/// A directory that goes with the value.
struct Scratch(PathBuf);
impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("flashattn-{}-{}", name, std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
    fn file(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }
    /// A shared library from C.
    fn compile(&self, name: &str, source: &str) -> PathBuf {
        let code = self.file("source.c");
        std::fs::write(&code, source).unwrap();
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let built = Command::new(compiler).args(["-shared", "-fPIC", "-o"]).arg(self.file(name)).arg(code).status();
        assert!(built.unwrap().success());
        self.file(name)
    }
}
impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn refusal(path: &Path) -> String {
    let error = Library::open(Some(path)).expect_err("refused");
    assert_eq!(error.status(), Status::NO_DRIVER);
    error.text().to_string()
}

/// What `Library::open(None)` says in a process with this environment: the test below as a program.
fn open_in_child(program: &Path, named: Option<&Path>, search: &str) -> String {
    let mut command = Command::new(program);
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    command.env("FLASHATTN_TEST_CHILD", "1").env_remove("FLASHATTN_LIBRARY").env("LD_LIBRARY_PATH", search);
    if let Some(named) = named {
        command.env("FLASHATTN_LIBRARY", named);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split("<<").nth(1).and_then(|text| text.split(">>").next()).unwrap_or_else(|| panic!("{}", text)).to_string()
}

#[test]
fn child() {
    if std::env::var_os("FLASHATTN_TEST_CHILD").is_none() {
        return; // a program for the tests above and below
    }
    match Library::open(None) {
        Ok(library) => {
            // Where its code lies says which copy it is.
            let address = library.api().flashattn_version as usize;
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let line = maps.lines().find(|line| {
                let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
                let number = |text| usize::from_str_radix(text, 16).unwrap();
                (number(from)..number(to)).contains(&address)
            });
            println!("<<{}>>", line.unwrap().split_whitespace().last().unwrap());
        }
        Err(error) => println!("<<{}>>", error),
    }
}

#[test]
fn a_path_is_opened_and_never_replaced() {
    let found = Library::open(Some(&library())).unwrap();
    assert!(found.version().starts_with("0.1."));
    assert!(found.backends().iter().any(|backend| backend.name == "cpu" && backend.device_count == 1));
    let text = refusal(Path::new("/nowhere/libflashattn.so.0"));
    assert!(text.contains("/nowhere/libflashattn.so.0") && text.contains("No such file"), "{}", text);
    let scratch = Scratch::new("text");
    std::fs::write(scratch.file("text.so"), "no library").unwrap();
    assert!(refusal(&scratch.file("text.so")).contains("text.so"));
}

#[test]
fn other_versions_and_other_libraries_are_refused_by_name() {
    let scratch = Scratch::new("versions");
    let newer = scratch.compile("newer.so", "unsigned flashattn_version(void) { return 2003; }");
    assert_eq!(refusal(&newer), format!("{} is libflashattn 0.2.3; this binding needs 0.1", newer.display()));
    let other = scratch.compile("other.so", "int other;");
    assert_eq!(refusal(&other), format!("{} has no function flashattn_version", other.display()));
    let partial = scratch.compile("partial.so", "unsigned flashattn_version(void) { return 1000; }");
    assert!(refusal(&partial).contains("partial.so has no function flashattn_"));
}

#[test]
fn places_are_tried_in_order() {
    let here = std::env::current_exe().unwrap();
    let directory = library().parent().unwrap().to_str().unwrap().to_string();
    let system = std::fs::canonicalize(library()).unwrap().display().to_string();
    // The system's.
    assert_eq!(open_in_child(&here, None, &directory), system);
    // A packaged copy goes before it: in ../lib beside the program, and before that in the program's directory.
    let scratch = Scratch::new("packaged");
    let program = scratch.file("bin/program");
    std::fs::copy(&here, &program).unwrap();
    let resolved = |path: PathBuf| std::fs::canonicalize(path).unwrap().display().to_string();
    std::fs::copy(library(), scratch.file("lib/libflashattn.so.0")).unwrap();
    assert_eq!(open_in_child(&program, None, &directory), resolved(scratch.file("lib/libflashattn.so.0")));
    std::fs::copy(library(), scratch.file("bin/libflashattn.so.0")).unwrap();
    assert_eq!(open_in_child(&program, None, &directory), resolved(scratch.file("bin/libflashattn.so.0")));
    // FLASHATTN_LIBRARY goes before both, and is not replaced when it fails; empty is unset.
    let named = scratch.file("named.so");
    std::fs::copy(library(), &named).unwrap();
    assert_eq!(open_in_child(&program, Some(&named), &directory), resolved(named));
    let text = open_in_child(&program, Some(Path::new("/nowhere/x.so")), &directory);
    assert!(text.starts_with("FLASHATTN_LIBRARY: /nowhere/x.so: "), "{}", text);
    assert_eq!(open_in_child(&here, Some(Path::new("")), &directory), system);
    // A packaged file that does not load is an error, not a reason to look on.
    std::fs::write(scratch.file("bin/libflashattn.so.0"), "no library").unwrap();
    let text = open_in_child(&program, None, &directory);
    assert!(text.contains("bin/libflashattn.so.0"), "{}", text);
}

#[test]
#[cfg(not(feature = "link"))]
fn nothing_found_says_where_it_was_looked_for() {
    let text = open_in_child(&std::env::current_exe().unwrap(), None, "/nowhere");
    assert!(text.starts_with("no libflashattn: FLASHATTN_LIBRARY is not set; there is no "), "{}", text);
    assert!(text.contains("../lib/libflashattn.so.0") && text.ends_with("No such file or directory"), "{}", text);
}

#[test]
fn two_copies_do_not_disturb_each_other() {
    let scratch = Scratch::new("copies");
    let open = |name: &str| {
        std::fs::copy(library(), scratch.file(name)).unwrap();
        Library::open(Some(&scratch.file(name))).unwrap()
    };
    let (first, second) = (open("first.so"), open("second.so"));
    assert_ne!(first.api().flashattn_create as usize, second.api().flashattn_create as usize);
    let wrong = Options::new().backend(Backend::Cpu).device(7);
    let error = Handle::open_in(first, &wrong).expect_err("no such device");
    assert_eq!(error.status(), Status::INVALID_DEVICE);
    // The other copy has seen no error, and opens devices of its own.
    // SAFETY: a string.
    let text = unsafe { std::ffi::CStr::from_ptr((second.api().flashattn_last_error)()) };
    assert_eq!(text.to_bytes(), b"");
    let good = Options::new().backend(Backend::Cpu).num_threads(2);
    let (a, b) = (Handle::open_in(first, &good).unwrap(), Handle::open_in(second, &good).unwrap());
    drop(a);
    assert_eq!(b.info().num_threads, 2);
}
