//! `harn check`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{folder, harn, harn_in};

#[test]
fn clean_files_are_ok() {
    let folder = folder(&[
        ("a.harn", "println(1)\n"),
        ("sub/b.harn", "let x = 1\nprintln(x)\n"),
        ("target/c.harn", "("),
    ]);
    let ran = harn_in(folder.path(), &["check", "."]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "./a.harn: ok\n./sub/b.harn: ok\n", ""));
}

#[test]
fn all_files_are_checked_and_nothing_is_run() {
    let folder = folder(&[
        ("a.harn", "let = 1\n"),
        ("b.harn", "println(\"ran\")\nprintl(1)\n"),
        ("c.harn", "let x = 1\n"),
    ]);
    let ran = harn_in(folder.path(), &["check", "a.harn", "b.harn", "c.harn", "missing.harn"]);
    assert_eq!(ran.code, 1);
    assert!(!ran.out.contains("ran"), "{}", ran.out);
    assert!(ran.out.contains("c.harn: ok\n"), "{}", ran.out);
    for text in
        ["--> a.harn:1:5", "call target `printl` is not defined or imported", "Error reading missing.harn: "]
    {
        assert!(ran.err.contains(text), "{text}: {}", ran.err);
    }
}

#[test]
fn json_lists_the_findings() {
    let folder = folder(&[("a.harn", "let = 1\n"), ("b.harn", "println(1)\n")]);
    let ran = harn_in(folder.path(), &["check", "--json", "a.harn", "b.harn"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["ok"], false);
    assert_eq!(json["data"]["summary"]["errors"], 1);
    assert_eq!(json["data"]["files"][0]["status"], "error");
    assert_eq!(json["data"]["files"][0]["diagnostics"][0]["span"]["column"], 5);
    assert_eq!(json["data"]["files"][1]["status"], "ok");
}

#[test]
fn a_target_is_needed() {
    assert_eq!(harn(&["check"]).code, 2);
    let empty = folder(&[]);
    let ran = harn_in(empty.path(), &["check", "."]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: no .harn files found under the given target(s)\n"));
}
