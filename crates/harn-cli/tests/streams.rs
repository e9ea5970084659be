//! Standard streams: a write error is an error, and so is input that is not UTF-8.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::common::{command, finish, folder, harn_in, harn_with};

/// Runs a command whose output goes to a full disk.
fn into_full(args: &[&str]) -> (i32, String) {
    let scratch = folder(&[("main.harn", "println(\"data\")\n"), ("quiet.harn", "1 + 1\n")]);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut harn = command(args);
    harn.current_dir(scratch.path()).env("HARN_RUN_DIR", scratch.path().join("runs"));
    let output = harn.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).output().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn output_to_a_full_disk_is_an_error() {
    for args in [
        &["run", "main.harn"][..],
        &["run", "-e", "println(1)\nexit(0)"],
        &["run", "-e", "let r = try { println(\"x\".repeat(100000)) }"],
        &["run", "--json", "main.harn"],
        &["check", "main.harn"],
        &["check", "--json", "main.harn"],
        &["lint", "main.harn"],
        &["models", "--json"],
        &["providers"],
        &["explain", "println"],
        &["version"],
        &["completions", "bash"],
        &["demo", "--list"],
        &["--help"],
        &["run", "--help"],
        &["--version"],
    ] {
        let (code, err) = into_full(args);
        assert_eq!(code, 1, "{args:?}: {err}");
        assert!(err.contains("cannot write to standard output"), "{args:?}: {err}");
    }
    let (code, err) = into_full(&["run", "quiet.harn"]);
    assert_eq!((code, err.as_str()), (0, ""), "nothing was to be written");
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    let mut harn = command(&["run", "-e", "for i in 1 to 100000 { println(i) }"]);
    let mut child = harn.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_replay_whose_reader_went_away_is_no_difference() {
    let scratch = folder(&[("main.harn", "for i in 1 to 5000 { println(i) }\nlet id = uuid()\n")]);
    let ran = harn_in(scratch.path(), &["run", "--durable", "--run-id", "r", "main.harn"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let mut harn = command(&["replay", "r"]);
    harn.current_dir(scratch.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = harn.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(0), ""));
}

#[test]
fn others_go_on_while_a_program_waits_for_input() {
    let program = "let seen = atomic(0)\nspawn { sleep(1ms)\natomic_set(seen, 1) }\n\
                   println(try { deadline 100ms { read_line() } })\nprintln(atomic_get(seen))\n\
                   println(try { deadline 50ms { read_stdin() } })\n\
                   mock_tty(\"stdin\", true)\n\
                   println(unwrap_err(try { ask_user(\"?\", {timeout: 50ms}) }).name)\nunmock_tty()\n\
                   println(read_line())\nlet both = parallel 2 { read_line() }\nprintln(both.sort())\nprintln(read_stdin())";
    let mut harn = command(&["run", "-e", program]);
    let mut child = harn.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // Input before a cancelled wait is not lost.
    input.write_all(b"a li").unwrap();
    let mut printed: Vec<String> = lines.by_ref().take(4).collect();
    input.write_all(b"ne\n").unwrap();
    printed.extend(lines.next());
    input.write_all(b"b\nc\nrest\n").unwrap();
    drop(input);
    printed.extend(lines);
    let late = "Result.Err(Deadline exceeded)";
    assert_eq!(printed, [late, "1", late, "HumanTimeoutError", "a line", "[b, c]", "rest", ""]);
    assert!(child.wait().unwrap().success());
}

#[test]
fn input_that_is_no_text_is_an_error() {
    let program = "var l = try { read_line() }\nwhile is_err(l) || unwrap(l) != nil {\nprintln(l)\nl = try { read_line() } }\nprintln(\"end\")";
    let mut harn = command(&["run", "-e", program]);
    harn.env("HARN_TASK", "");
    let ran = finish(harn, b"good\nb\xffad\nmore\n");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[0], "Result.Ok(good)", "{}", ran.shown());
    assert!(
        lines[1].contains("read_line: cannot read standard input: a line of standard input is not UTF-8")
    );
    assert_eq!(lines[2..], ["Result.Ok(more)", "end"], "{}", ran.shown());
    let mut harn = command(&["run", "-e", "println(try { read_stdin() })"]);
    harn.env("HARN_TASK", "");
    let ran = finish(harn, b"a\nb\xff\n");
    assert!(ran.out.starts_with("Result.Err(read_stdin: cannot read standard input"), "{}", ran.shown());
    assert_eq!(harn_with(&["run", "-e", "print(read_stdin())"], "ä\n").out, "ä\n");
}

/// A closed standard error affects neither the exit code nor the program.
#[test]
fn nobody_has_to_read_standard_error() {
    let folder = crate::common::folder(&[("a.harn", "eprintln(1)\nprintln(2)\n")]);
    for (args, code) in [
        (&["lint"][..], 2),
        (&["check", "--filter", "tools", "a.harn"], 2),
        (&["run", "nosuch.harn"], 1),
        (&["run", "--durable", "a.harn"], 0),
        (&["runs", "show", "nosuch"], 1),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut harn = crate::common::command(args);
        harn.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(writer);
        let output = harn.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        if code == 0 {
            assert_eq!(String::from_utf8_lossy(&output.stdout), "2\n");
        }
    }
}
