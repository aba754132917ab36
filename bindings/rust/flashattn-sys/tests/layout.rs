// SPDX-License-Identifier: Apache-2.0
//! Makes a C program from the Rust declarations and lets the C compiler compare it with flashattn.h; and reads the header
//! for names that the declarations lack. FLASHATTN_INCLUDE_DIR names another header, CC another compiler.

use flashattn_sys::{layouts, CONSTANTS, SIGNATURES};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

fn include_directory() -> PathBuf {
    match std::env::var_os("FLASHATTN_INCLUDE_DIR") {
        Some(directory) => directory.into(),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../include")),
    }
}

fn header() -> String {
    std::fs::read_to_string(include_directory().join("flashattn.h")).expect("flashattn.h")
}

/// The C spelling of a Rust type, with the declared name in its place.
fn c_declaration(rust: &str, name: &str) -> String {
    let rust = rust.trim();
    if let Some(inner) = rust.strip_prefix("Option <").or_else(|| rust.strip_prefix("Option<")) {
        return c_declaration(inner.trim_end_matches('>'), name);
    }
    if let Some(inner) = rust.strip_prefix('[') {
        let mut parts = inner.trim_end_matches(']').split(';');
        let element = parts.next().expect("an element type");
        let count = parts.next().expect("a count").trim();
        return c_declaration(element, &format!("{}[{}]", name, count));
    }
    for (prefix, pointer) in [("*const ", "const "), ("* const ", "const "), ("*mut ", ""), ("* mut ", "")] {
        let inner = match rust.strip_prefix(prefix) {
            Some(inner) => inner.trim(),
            None => continue,
        };
        // `*const T` is `const T *`; `*mut *const T` is `const T **`.
        return if inner.starts_with('*') {
            c_declaration(inner, &format!("*{}", name))
        } else {
            format!("{}{}", pointer, c_declaration(inner, &format!("*{}", name)))
        };
    }
    let base = match rust {
        "i32" => "int32_t",
        "u32" => "uint32_t",
        "i64" => "int64_t",
        "u64" => "uint64_t",
        "usize" => "size_t",
        "f32" => "float",
        "c_char" => "char",
        "c_void" | "" => "void",
        other => other,
    };
    format!("{} {}", base, name)
}

#[test]
fn the_c_compiler_agrees() {
    let mut program = String::from("#include <flashattn.h>\n#include <stdio.h>\nint wrong;\n");
    program += "static void same(const char *what, long long c, long long rust) {\n";
    program += "  if (c != rust) printf(\"%s is %lld in C, %lld in Rust\\n\", what, c, rust), ++wrong;\n}\n";
    for (name, arguments, result) in SIGNATURES {
        let arguments: Vec<String> = arguments.iter().map(|argument| c_declaration(argument, "")).collect();
        let list = if arguments.is_empty() { "void".into() } else { arguments.join(", ") };
        let pointer = format!("(*check_{})({})", name, list);
        writeln!(program, "{} = {};", c_declaration(result, &pointer), name).unwrap();
    }
    program += "int main(void) {\n";
    for (name, size, fields) in layouts() {
        writeln!(program, "  same(\"sizeof {0}\", sizeof({0}), {1});", name, size).unwrap();
        for (field, offset, kind) in fields {
            writeln!(program, "  same(\"{0}.{1}\", offsetof({0}, {1}), {2});", name, field, offset).unwrap();
            writeln!(
                program,
                "  {{ typedef {2}; same(\"type of {0}.{1}\", __builtin_types_compatible_p(__typeof__((({0} *)0)->{1}), t), 1); }}",
                name,
                field,
                c_declaration(kind, "t")
            )
            .unwrap();
        }
    }
    for (name, value) in CONSTANTS {
        writeln!(program, "  same(\"{0}\", (long long){0}, {1});", name, value).unwrap();
    }
    program += "  return wrong != 0;\n}\n";

    let directory = std::env::temp_dir().join(format!("flashattn-layout-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let source = directory.join("layout.c");
    let object = directory.join("layout.o");
    let binary = directory.join("layout");
    std::fs::write(&source, &program).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let compiled = Command::new(&compiler)
        .arg("-I")
        .arg(include_directory())
        .args(["-std=gnu99", "-Wall", "-Werror", "-c", "-o"])
        .args([&object, &source])
        .output()
        .expect("a C compiler");
    assert!(compiled.status.success(), "{}\n{}", String::from_utf8_lossy(&compiled.stderr), program);
    // The functions need not be there to compare layouts.
    let linked = Command::new(&compiler)
        .args([&object])
        .args(["-Wl,--unresolved-symbols=ignore-all", "-o"])
        .arg(&binary)
        .output()
        .expect("a linker");
    assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
    let ran = Command::new(&binary).output().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}

#[test]
fn nothing_of_the_header_is_missing() {
    let header = header();
    let declared: BTreeSet<&str> = SIGNATURES.iter().map(|(name, _, _)| *name).collect();
    let functions: BTreeSet<&str> = header
        .split("FLASHATTN_API ")
        .skip(1)
        .filter_map(|text| text.split("FLASHATTN_CALL ").nth(1))
        .map(|text| text.split('(').next().unwrap().trim())
        .filter(|name| name.starts_with("flashattn_"))
        .collect();
    assert!(functions.len() > 20);
    assert_eq!(functions, declared);

    let known: BTreeSet<&str> = CONSTANTS.iter().map(|(name, _)| *name).collect();
    let mut seen = 0;
    for line in header.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some("#define") {
            continue;
        }
        let (name, value) = match (words.next(), words.next()) {
            (Some(name), Some(value)) => (name, value),
            _ => continue,
        };
        if value.starts_with("UINT64_C") || value.parse::<i64>().is_ok() {
            assert!(known.contains(name), "{} is not declared", name);
            seen += 1;
        }
    }
    assert_eq!(seen, known.len());

    // The fields of a struct: names before a ';' inside it.
    for (name, _, fields) in layouts() {
        let end = header.find(&format!("}} {};", name)).unwrap_or_else(|| panic!("{} is not in the header", name));
        let body = &header[header[..end].rfind("typedef struct").unwrap()..end];
        let code: String = body.split("/**").map(|part| part.split("*/").last().unwrap()).collect();
        let count = code.split('{').nth(1).unwrap().matches(';').count();
        assert_eq!(count, fields.len(), "fields of {}", name);
    }
}
