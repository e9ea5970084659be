//! A short run of every target with the stored corpus, as part of the tests.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

/// Returns the names of the targets from the help text.
fn targets() -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_harn-fuzz")).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let list = help.split_once("TARGET is one of: ").and_then(|(_, rest)| rest.split_once('.'));
    list.expect("the help lists the targets").0.split(", ").map(str::to_owned).collect()
}

/// Runs each target for two seconds, two at a time.
#[test]
fn a_short_run_finds_nothing() {
    let targets = targets();
    assert!(targets.len() > 1, "{targets:?}");
    std::thread::scope(|scope| {
        for half in targets.chunks(targets.len().div_ceil(2)) {
            scope.spawn(move || {
                let mut fuzz = Command::new(env!("CARGO_BIN_EXE_harn-fuzz"));
                let output = fuzz.args(["--seconds", "2"]).args(half).output().unwrap();
                let text = String::from_utf8_lossy(&output.stdout);
                assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
                let clean = text.lines().filter(|line| line.ends_with("nothing found")).count();
                assert_eq!(clean, half.len(), "{text}");
            });
        }
    });
}

#[test]
fn unknown_targets_and_options_are_refused() {
    for args in [&["nonsense"][..], &["--seconds", "many"], &["--input", "x"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_harn-fuzz")).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}
