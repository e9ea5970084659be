//! Wrong usage: exit code 2, and a text that says what to do.

use crate::common::{finish, folder, harn, harn_in};

#[test]
fn no_arguments_show_first_steps_on_standard_error() {
    let ran = harn(&[]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("Usage: harn <COMMAND>"), "{}", ran.err);
    for command in ["harn demo agent-loop", "harn repl", "harn --help"] {
        assert!(ran.err.contains(command), "{command}\n{}", ran.err);
    }
}

#[test]
fn slips_are_answered_with_what_was_meant() {
    let ran = harn(&["rnu", "a.harn"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.starts_with("error: unrecognized subcommand 'rnu'\n"), "{}", ran.err);
    assert!(ran.err.matches("tip:").count() == 1 && ran.err.contains("'run'"), "{}", ran.err);
    let ran = harn(&["run", "--trce", "a.harn"]);
    assert!(ran.err.contains("--trace"), "{}", ran.err);
    let folder = folder(&[("job.harn", "println(argv)"), ("notes.txt", "")]);
    for (typed, tip) in [("job", "harn run job.harn"), ("notes.txt", "harn run notes.txt")] {
        let ran = harn_in(folder.path(), &[typed]);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains(&format!("\n  tip: to run the file: {tip}\n")), "{}", ran.err);
    }
    let ran = harn_in(folder.path(), &["run", "job.harn", "x"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("harn run job.harn -- x"), "{}", ran.err);
}

#[test]
fn a_file_runs_with_arguments() {
    let folder = folder(&[("job.harn", "println(argv)"), ("tool", "println(argv)")]);
    let run = |args: &[&str]| harn_in(folder.path(), args).out;
    assert_eq!(run(&["job.harn", "a", "--json", "-v"]), "[a, --json, -v]\n");
    assert_eq!(run(&["job.harn", "--", "a"]), "[a]\n");
    assert_eq!(run(&["job.harn"]), "[]\n");
    assert_eq!(run(&["./tool", "--", "--", "b"]), "[--, b]\n");
}

#[cfg(unix)]
#[test]
fn a_program_can_be_a_command() {
    use std::os::unix::fs::PermissionsExt;
    let program = "#!/usr/bin/env harn\nprintln(\"hello ${argv}\")\n";
    let folder = folder(&[("greet", program)]);
    let path = folder.path().join("greet");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let harn = std::path::Path::new(env!("CARGO_BIN_EXE_harn"));
    let search = format!("{}:{}", harn.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = std::process::Command::new(&path);
    command.args(["one", "--two"]).env("PATH", search).env("NO_COLOR", "1");
    let ran = finish(command, b"");
    assert_eq!((ran.code, ran.out.as_str()), (0, "hello [one, --two]\n"), "{}", ran.shown());
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

#[test]
fn a_list_of_builtins_that_is_empty_is_refused() {
    for option in ["--allow", "--deny"] {
        for list in ["", ","] {
            let ran = harn(&["run", option, list, "-e", "println(1)"]);
            assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.shown());
            assert!(ran.err.contains(&format!("`{option}` names no builtin")), "{}", ran.err);
        }
    }
}
