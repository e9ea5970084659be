//! `harn run --allow`, `--deny` and `--sandbox`, and resources that programs leak.

use crate::common::{command, finish, folder, harn};

const PROGRAM: &str = "println(try { read_file(\"a.txt\") })\nprintln(await(spawn { try { read_file(\"a.txt\") } }))\nprintln([\"a.txt\"].map({ p -> try { read_file(p) } })[0])";

fn run(args: &[&str], program: &str) -> crate::common::Ran {
    let scratch =
        folder(&[("a.txt", "a"), ("main.harn", program), ("lib.harn", "fn read() { read_file(\"a.txt\") }")]);
    let mut harn = command(&[&["run"], args, &["main.harn"]].concat());
    harn.current_dir(scratch.path());
    finish(harn, b"")
}

#[test]
fn builtins_that_are_not_allowed_are_refused_wherever_they_are_called() {
    let refused = "Result.Err(Error [tool_rejected]: Tool 'read_file' is not permitted.)\n".repeat(3);
    assert_eq!(run(&["--deny", "read_file, ,exec"], PROGRAM).out, refused);
    assert_eq!(run(&["--allow", "env,await"], PROGRAM).out, refused);
    assert_eq!(run(&["--allow", "read_file,await"], PROGRAM).out, "Result.Ok(a)\n".repeat(3));
    let imported = "import { read } from \"lib\"\nprintln(try { read() })\nprintln([[1, 2].map({ x -> x + 1 }), len([1])])";
    let ran = run(&["--deny", "read_file"], imported);
    assert_eq!(
        ran.out, "Result.Err(Error [tool_rejected]: Tool 'read_file' is not permitted.)\n[[2, 3], 1]\n",
        "{}",
        ran.err
    );
}

#[test]
fn names_that_are_no_builtins_are_usage_errors() {
    let ran = harn(&["run", "--deny", "read_fiel", "-e", "1"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("unknown builtin 'read_fiel'") && ran.err.contains("read_file"), "{}", ran.err);
    assert_eq!(harn(&["run", "--deny", "env", "--allow", "env", "-e", "1"]).code, 2);
    assert_eq!(harn(&["run", "--sandbox=moon", "-e", "1"]).code, 2);
}

#[test]
fn a_recording_never_replaces_the_program() {
    let scratch = folder(&[("main.harn", "1"), ("old.jsonl", "kept\n")]);
    let mut harn = command(&["run", "--llm-mock-record", "./main.harn", "main.harn"]);
    harn.current_dir(scratch.path());
    let ran = finish(harn, b"");
    assert_eq!(ran.code, 2, "{}", ran.shown());
    assert_eq!(std::fs::read_to_string(scratch.path().join("main.harn")).unwrap(), "1");
    let mut harn = command(&["run", "--llm-mock-record", "old.jsonl", "-e", "throw 1"]);
    harn.current_dir(scratch.path());
    assert_eq!(finish(harn, b"").code, 1);
    assert_eq!(std::fs::read_to_string(scratch.path().join("old.jsonl")).unwrap(), "kept\n");
}

#[test]
fn a_sandbox_keeps_the_program_in_its_folder() {
    let program = "println(try { read_file(\"a.txt\") })\nprintln(try { write_file(\"b.txt\", \"b\") })\nprintln(is_err(try { read_file(\"/etc/hostname\") }))\nprintln(is_err(try { exec(\"true\") }))\nprintln(is_err(await(spawn { try { read_file(\"/etc/hostname\") } })))";
    let ran = run(&["--sandbox"], program);
    assert_eq!(ran.out, "Result.Ok(a)\nResult.Ok(nil)\ntrue\ntrue\ntrue\n", "{}", ran.err);
    let ran = run(&["--sandbox=read_only"], program);
    assert!(ran.out.contains("builtin 'write_file' exceeds workspace write ceiling"), "{}", ran.shown());
}

#[test]
fn a_deadline_ends_programs_and_what_they_started() {
    let program = "let r = try { deadline 300ms { shell(\"sleep 1000 & echo $! > pid; wait\") } }\nprintln(is_err(r))\nlet pid = read_file(\"pid\").trim()\nvar runs = true\nvar left = 500\nwhile runs && left > 0 {\nsleep(10ms)\nleft = left - 1\nlet s = read_file_result(\"/proc/${pid}/stat\")\nruns = is_ok(s) && !unwrap(s).contains(\") Z \") }\nprintln(runs)\nlet t = shell(\"sleep 1000\", {timeout: 100ms})\nprintln([t.timed_out, t.success])\nprintln(is_err(try { shell(\"yes\", {max_output_bytes: 1000}) }))\nprintln(is_err(try { shell(\"true\", {timout: 1}) }))\nprintln(shell(\"sleep 1000 & echo x; kill $!\").stdout)";
    let ran = run(&[], program);
    assert_eq!(ran.out, "true\nfalse\n[true, false]\ntrue\ntrue\nx\n\n", "{}", ran.err);
}

#[test]
fn lines_of_the_call_log_are_whole() {
    let scratch = folder(&[(
        "main.harn",
        "for i in 1 to 40 { llm_mock({text: \"y\".repeat(3000)})\nllm_call(\"x\".repeat(i * 400), nil, {provider: \"mock\"}) }",
    )]);
    let log = scratch.path().join("log");
    let children: Vec<_> = (0..4)
        .map(|_| {
            let mut harn = command(&["run", "main.harn"]);
            harn.current_dir(scratch.path()).env("HARN_LLM_TRANSCRIPT_DIR", &log).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let text = std::fs::read_to_string(log.join("llm_transcript.jsonl")).unwrap();
    assert!(text.lines().count() > 160);
    for line in text.lines() {
        assert!(
            serde_json::from_str::<serde_json::Value>(line).is_ok(),
            "torn: {}",
            &line[..line.len().min(200)]
        );
    }
}

/// Each kind of stream is referenced by a function that it calls: 2,000 times 64 KB would be 128 MB.
#[test]
fn streams_that_hold_themselves_are_freed() {
    let kinds = [
        "stream.merge(items, [1])",
        "stream.race(items, [1])",
        "stream.interleave(items, [1])",
        "stream.throttle(items, 1000)",
        "stream.debounce(items, 0)",
        "stream.broadcast(items, 2)",
        "queue(f)",
    ];
    let programs = kinds.map(|kind| {
        format!(
            "fn queue(f) {{\n  let c = channel(\"c\")\n  send(c, f)\n  return iter(c)\n}}\n\
             fn once() {{\n  var held = nil\n  let big = \"x\".repeat(64000)\n\
             let f = {{ x -> [held, big, x] }}\n  let items = iter([1, 2, 3]).map(f)\n  held = {kind}\n}}\n\
             for i in range(2000) {{ once() }}\nprintln(\"flat\")"
        )
    });
    for program in programs {
        let ran = run(&["--max-memory", "60M"], &program);
        assert_eq!((ran.code, ran.out.as_str()), (0, "flat\n"), "{program}\n{}", ran.err);
    }
}

/// A thousand waiting agents have a thousand open connections, so the limit of open files is raised to the maximum.
#[cfg(target_os = "linux")]
#[test]
fn as_many_files_are_opened_as_the_system_allows() {
    let scratch = folder(&[("main.harn", "println(shell(\"ulimit -Sn; ulimit -Hn\").stdout)")]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -Sn 64; exec \"$HARN\" run main.harn"]).current_dir(scratch.path());
    shell.env("HARN", env!("CARGO_BIN_EXE_harn"));
    let ran = crate::common::finish(shell, b"");
    let limits: Vec<&str> = ran.out.split_whitespace().collect();
    assert!(limits.len() == 2 && limits[0] == limits[1] && limits[0] != "64", "{}", ran.shown());
}

/// A background process of a program does not block the caller of the program.
#[cfg(unix)]
#[test]
fn a_process_in_the_background_is_not_waited_for() {
    let begin = std::time::Instant::now();
    let ran = run(&[], "println(shell(\"sleep 60 & echo x\").stdout.trim())");
    assert_eq!((ran.code, ran.out.as_str()), (0, "x\n"), "{}", ran.shown());
    assert!(begin.elapsed() < std::time::Duration::from_secs(30), "{:?}", begin.elapsed());
}
