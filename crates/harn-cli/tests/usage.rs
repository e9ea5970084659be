//! Wrong usage: exit code 2, and a text that says what to do.

use crate::common::harn;

#[test]
fn no_arguments_print_the_help_on_standard_error() {
    let ran = harn(&[]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("Usage: harn <COMMAND>"), "{}", ran.err);
}

#[test]
fn help_and_version_go_to_standard_output() {
    for args in [&["--help"][..], &["help", "run"], &["run", "--help"], &["test", "-h"]] {
        let ran = harn(args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        assert!(ran.out.contains("Usage:"), "{args:?}");
    }
    let ran = harn(&["--version"]);
    assert_eq!((ran.code, ran.out), (0, format!("harn {}\n", env!("CARGO_PKG_VERSION"))));
    let ran = harn(&["version"]);
    assert!(ran.code == 0 && ran.out.contains(&format!("harn v{}", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn unknown_commands_and_options() {
    let ran = harn(&["frobnicate"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.starts_with("error: unrecognized subcommand 'frobnicate'\n\nUsage: "), "{}", ran.err);
    let ran = harn(&["run", "--frobnicate", "a.harn"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.starts_with("error: unexpected argument '--frobnicate' found\n"), "{}", ran.err);
    assert!(ran.err.contains("\n\nUsage: "), "{}", ran.err);
}

#[test]
fn run_wants_exactly_one_program() {
    let ran = harn(&["run"]);
    assert_eq!(ran.code, 2);
    let text = "error: `harn run` requires either `-e <code>` or `<file.harn>`\n\nUsage: ";
    assert!(ran.err.starts_with(text), "{}", ran.err);
    let ran = harn(&["run", "-e", "1", "a.harn"]);
    assert_eq!(ran.code, 2);
    let text = "error: `harn run` accepts either `-e <code>` or `<file.harn>`, not both\n\nUsage: ";
    assert!(ran.err.starts_with(text), "{}", ran.err);
}

#[test]
fn sizes_filters_and_targets_are_checked() {
    let ran = harn(&["run", "--max-memory", "lots", "-e", "1"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("512M"), "{}", ran.err);
    let ran = harn(&["test", "conformance", "--filter", "re:("]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("invalid regular expression"), "{}", ran.err);
    let ran = harn(&["completions", "tcl"]);
    assert_eq!(ran.code, 2);
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = harn(&["completions", shell]);
        assert_eq!(ran.code, 0);
        for command in ["run", "repl", "explain", "max-memory"] {
            assert!(ran.out.contains(command), "{shell} lacks {command}");
        }
    }
}
