//! A short run of every target over the kept corpus, as part of the tests.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

/// Runs each target for three seconds.
#[test]
fn a_short_run_finds_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_harn-fuzz")).args(["--seconds", "3"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.lines().count() > 1 && text.lines().all(|line| line.ends_with("nothing found")), "{text}");
}

#[test]
fn unknown_targets_and_options_are_refused() {
    for args in [&["nonsense"][..], &["--seconds", "many"], &["--input", "x"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_harn-fuzz")).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}
