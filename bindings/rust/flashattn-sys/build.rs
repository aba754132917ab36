// SPDX-License-Identifier: Apache-2.0
//! Says how to link. With the feature `load` alone there is nothing to say.
//!
//! `FLASHATTN_LIB_DIR` names the directory of the library; otherwise pkg-config is asked.

use std::{env, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=FLASHATTN_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let has = |feature: &str| env::var_os(format!("CARGO_FEATURE_{}", feature)).is_some();
    if !has("LINK") {
        return;
    }
    let directories = match env::var("FLASHATTN_LIB_DIR") {
        Ok(directory) => vec![directory],
        Err(_) => pkg_config_directories(),
    };
    for directory in &directories {
        println!("cargo:rustc-link-search=native={}", directory);
    }
    if has("STATIC") {
        println!("cargo:rustc-link-lib=static=flashattn");
        for library in ["stdc++", "m", "pthread", "dl"] {
            println!("cargo:rustc-link-lib=dylib={}", library);
        }
    } else {
        println!("cargo:rustc-link-lib=dylib=flashattn");
        // For the build scripts of crates above: DEP_FLASHATTN_LIB_DIR.
        println!("cargo:lib_dir={}", directories.join(":"));
    }
}

fn pkg_config_directories() -> Vec<String> {
    let tool = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    println!("cargo:rerun-if-env-changed=PKG_CONFIG");
    let output = Command::new(&tool).args(["--libs-only-L", "--keep-system-libs", "flashattn >= 0.1"]).output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("-L"))
            .map(String::from)
            .collect(),
        Ok(output) => fail(&String::from_utf8_lossy(&output.stderr)),
        Err(error) => fail(&format!("{}: {}", tool, error)),
    }
}

fn fail(why: &str) -> ! {
    eprintln!(
        "libflashattn was not found. Set FLASHATTN_LIB_DIR to its directory, make flashattn.pc visible to pkg-config"
    );
    eprintln!("(PKG_CONFIG_PATH), or use the feature \"load\" without \"link\" to open it at run time. {}", why);
    std::process::exit(1);
}
