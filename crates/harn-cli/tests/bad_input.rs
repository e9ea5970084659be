//! Invalid input produces a clear error, and no panic, hang or lost output.

use std::io::Read;
use std::process::Stdio;

use crate::common::{folder, harn, harn_in, run_text};

/// Runs bytes as a program and checks that it is rejected cleanly.
fn refused(bytes: &[u8]) -> crate::common::Ran {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.harn"), bytes).unwrap();
    let ran = harn_in(folder.path(), &["run", "bad.harn"]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    assert_eq!(ran.out, "", "{}", ran.err);
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
    assert!(!ran.err.trim().is_empty());
    ran
}

#[test]
fn a_missing_file() {
    let ran = harn(&["run", "no/such/file.harn"]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.err, "Error reading no/such/file.harn: No such file or directory (os error 2)\n");
    let folder = tempfile::tempdir().unwrap();
    let ran = harn_in(folder.path(), &["run", "."]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("Error reading .: "), "{}", ran.err);
}

#[test]
fn invalid_utf8_names_the_place() {
    let ran = refused(b"println(1)\nlet s = \"\xff\xfe\"\n");
    assert!(ran.err.starts_with("Error reading bad.harn: "), "{}", ran.err);
    assert!(ran.err.contains("UTF-8") && ran.err.contains("line 2"), "{}", ran.err);
}

#[test]
fn a_binary_file() {
    let bytes: Vec<u8> = (0..4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    refused(&[b"\x7fELF\x02\x01\x01\0\0\0".as_slice(), &bytes].concat());
    refused(&[0; 1000]);
}

#[test]
fn everything_unclosed() {
    for text in [
        "fn f() {",
        "let xs = [1, 2",
        "println(",
        "let d = {a: 1",
        "let s = \"abc",
        "let s = \"\"\"abc",
        "/* comment",
        "let s = \"${",
        "let s = \"${f(",
        "match x {",
        "if true {",
        "{ x ->",
        "r\"abc",
        "struct S {",
        "enum E {",
        "f(\"${\"${",
        "@a(",
        "import {",
    ] {
        let ran = refused(text.as_bytes());
        assert!(ran.err.starts_with("error: "), "{text}: {}", ran.err);
        assert!(ran.err.contains("--> bad.harn:1:"), "{text}: {}", ran.err);
    }
}

#[test]
fn ten_megabytes_of_open_brackets() {
    for bracket in ["[", "{", "("] {
        let begin = std::time::Instant::now();
        let ran = refused(bracket.repeat(10 << 20).as_bytes());
        assert!(ran.err.contains("nested too deeply"), "{}", &ran.err[..ran.err.len().min(500)]);
        assert!(ran.err.len() < 4000, "the error quotes the whole line: {} bytes", ran.err.len());
        assert!(begin.elapsed().as_secs() < 30);
    }
}

#[test]
fn ten_megabytes_of_other_things() {
    refused("-".repeat(10 << 20).as_bytes());
    refused("if x ".repeat(1 << 20).as_bytes());
    refused("1 + ".repeat(2 << 20).as_bytes());
    refused("\"${".repeat(3 << 20).as_bytes());
}

#[test]
fn a_missing_import() {
    let ran = run_text("import \"lib/nothing\"\nprintln(1)\n");
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("lib/nothing"), "{}", ran.err);
    assert!(ran.err.contains("main.harn:1:"), "{}", ran.err);
    let ran = run_text("import \"std/no_such_module\"\n");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("std/no_such_module"), "{}", ran.err);
}

#[test]
fn an_import_cycle_works() {
    let even = "import \"odd\"\npub fn even(n) {\n  if n == 0 { return true }\n  return odd(n - 1)\n}\n";
    let odd = "import \"even\"\npub fn odd(n) {\n  if n == 0 { return false }\n  return even(n - 1)\n}\n";
    let main = "import \"even\"\nprintln(even(10))\n";
    let folder = folder(&[("even.harn", even), ("odd.harn", odd), ("main.harn", main)]);
    let ran = harn_in(folder.path(), &["run", "main.harn"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "true\n", ""));
}

#[test]
fn a_syntax_error_in_an_imported_file() {
    let folder = folder(&[("lib.harn", "fn f( {\n"), ("main.harn", "import \"lib\"\nprintln(1)\n")]);
    let ran = harn_in(folder.path(), &["run", "main.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.starts_with("error: Runtime error: Import parse error: "), "{}", ran.err);
    assert!(ran.err.contains("import \"lib\""), "{}", ran.err);
}

#[test]
fn a_closed_output_pipe_ends_quietly() {
    let mut child = crate::common::command(&["run", "-e", "for i in 1 to 10000000 { println(i) }"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 2];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(&first, b"1\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn deep_data_is_printed_and_compared() {
    let text = "var a = []\nvar b = []\nfor i in 1 to 100000 {\n  a = [a]\n  b = [b]\n}\n\
                println(a == b)\nprintln(len(to_string(a)))\n";
    let ran = run_text(text);
    assert_eq!((ran.code, ran.out.as_str()), (0, "true\n200002\n"), "{}", ran.err);
}

#[test]
fn a_result_too_deep_for_json_is_an_error() {
    let text = "var v = [1]\nfor i in 1 to 140000 { v = [v] }\nreturn v";
    let folder = folder(&[("main.harn", text)]);
    let ran = harn_in(folder.path(), &["run", "--json", "main.harn"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.out.contains("the result cannot be written as JSON: nested deeper than 512 levels"),
        "{}",
        ran.out
    );
}

#[test]
fn a_source_beyond_the_limit_is_refused_before_it_is_read() {
    let folder = folder(&[("main.harn", "import \"big\"")]);
    // A sparse file of 20 GB.
    std::fs::File::create(folder.path().join("big.harn")).unwrap().set_len(20 << 30).unwrap();
    for args in
        [&["run", "big.harn"][..], &["check", "big.harn"], &["lint", "big.harn"], &["run", "main.harn"]]
    {
        let ran = harn_in(folder.path(), args);
        assert_eq!(ran.code, 1, "{args:?}: {}", ran.shown());
        assert!(ran.err.contains("16777216"), "{args:?}: {}", ran.shown());
    }
}

#[test]
fn a_name_of_megabytes_is_not_repeated_as_a_whole() {
    let name = "n".repeat(10 << 20);
    for text in [format!("println({name})"), format!("{name}()"), format!("import \"{name}\"")] {
        let ran = refused(text.as_bytes());
        assert!(ran.err.len() < 10_000, "an error of {} bytes", ran.err.len());
    }
}

#[test]
fn a_memory_limit_gives_an_error_the_program_can_catch() {
    let text = "fn grow() {\n  var s = \"xxxxxxxxxxxxxxxx\"\n  while true {\n    s = s + s\n  }\n}\n\
                let r = try { grow() }\nprintln(is_err(r))\ngrow()\n";
    let folder = folder(&[("big.harn", text)]);
    let ran = harn_in(folder.path(), &["run", "--max-memory", "64M", "big.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, "true\n"), "{}", ran.err);
    assert!(ran.err.contains("memory limit"), "{}", ran.err);
    let text = "var xs = []\nwhile true {\n  xs = xs + [1, 2, 3, 4]\n}\n";
    let folder = crate::common::folder(&[("list.harn", text)]);
    let ran = harn_in(folder.path(), &["run", "--max-memory", "64M", "list.harn"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("memory limit"), "{}", ran.err);
}
