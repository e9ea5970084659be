//! Waitpoints of durable runs, resolved from the command line, and of programs that share an event log.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::common::{command, durable, finish, folder, harn_in, shown};

const PAYMENT: &str = r#"
import { create, wait } from "std/waitpoint"
let payment = create({id: "payment", metadata: {order: 7}})
append_file("log.txt", "asked ")
let paid = wait(payment)
println("${paid.value.amount} of ${paid.completed_by}")
try { wait(create("goods")) } catch e { println(e.message) }
println(waitpoint_wait(create("note")).waitpoints[0].value)
"#;

#[test]
fn a_run_waits_without_a_process_until_the_command_line_completes_it() {
    let dir = folder(&[("main.harn", PAYMENT)]);
    let path = dir.path();
    let first = durable(path, &["main.harn"]);
    assert_eq!((first.code, first.out.as_str()), (75, ""), "{}", first.shown());
    assert!(first.err.contains("run r waits for an answer\n"), "without a limit of time: {}", first.err);
    let how = "`harn answer r payment VALUE` or `harn answer r payment --reject`";
    assert!(first.err.contains(how), "{}", first.err);
    let asked = &shown(path)["pending"][0];
    assert_eq!((&asked["kind"], &asked["request_id"]), (&"waitpoint".into(), &"payment".into()), "{asked}");
    assert_eq!(
        (&asked["due_at"], &asked["details"]["metadata"]["order"]),
        (&Value::Null, &7.into()),
        "{asked}"
    );
    let answer = |args: &[&str]| harn_in(path, &[&["answer", "r"], args].concat());
    assert_eq!(answer(&["payment", "{\"amount\": 120}", "--by", "bank"]).code, 0);
    let twice = answer(&["payment", "1", "--by", "thief"]);
    assert!(twice.code == 1 && twice.err.contains("answered by bank"), "{}", twice.shown());
    let second = harn_in(path, &["resume", "r"]);
    assert_eq!((second.code, second.out.as_str()), (75, "120 of bank\n"), "{}", second.shown());
    let done = answer(&["payment", "2"]);
    assert!(done.code == 1 && done.err.contains("does not ask 'payment' any more"), "{}", done.shown());
    assert_eq!(answer(&["goods", "--reject", "--reason", "sold out"]).code, 0);
    let third = harn_in(path, &["resume", "r"]);
    assert_eq!(third.out, "waitpoint 'goods' was cancelled: sold out\n", "{}", third.shown());
    assert_eq!(answer(&["note", "--approve"]).code, 0);
    let last = harn_in(path, &["resume", "r"]);
    assert_eq!((last.code, last.out.as_str()), (0, "nil\n"), "{}", last.shown());
    let all = "120 of bank\nwaitpoint 'goods' was cancelled: sold out\nnil\n";
    assert_eq!(harn_in(path, &["replay", "r"]).out, all);
    assert_eq!(std::fs::read_to_string(path.join("log.txt")).unwrap(), "asked ");
}

#[test]
fn what_is_completed_in_time_counts_and_what_comes_later_does_not() {
    let program = r#"
import { create, wait } from "std/waitpoint"
let w = create("soon")
try { println(wait(w, {timeout: 1500ms}).value) } catch e { println(e.name) }
"#;
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    for (name, before) in [("in time", true), ("late", false)] {
        let first = durable(path, &["--suspend-after", "100ms", "main.harn"]);
        assert_eq!(first.code, 75, "{name}: {}", first.shown());
        assert!(first.err.contains("waits for an answer until"), "{}", first.err);
        if before {
            assert_eq!(harn_in(path, &["answer", "r", "soon", "7"]).code, 0);
        }
        std::thread::sleep(Duration::from_millis(1700));
        if !before {
            assert_eq!(harn_in(path, &["answer", "r", "soon", "7"]).code, 0, "it is open as long as the run");
        }
        let end = harn_in(path, &["resume", "--all"]);
        let expected = if before { "7\n" } else { "WaitpointTimeoutError\n" };
        assert_eq!((end.code, end.out.as_str()), (0, expected), "{name}: {}", end.shown());
        assert_eq!(harn_in(path, &["replay", "r"]).out, expected, "{name}");
        assert_eq!(harn_in(path, &["runs", "rm", "r"]).code, 0);
    }
}

#[test]
fn what_is_over_before_anybody_could_be_asked_is_over() {
    let program = r#"
import { create, wait, complete } from "std/waitpoint"
println(complete(create("a"), 1).value)
let all = range(0, 50).map({ n -> create("w${n}") }).to_list()
let tasks = all.map({ w -> spawn { wait(w).value } })
for w in all { complete(w, 1) }
println(tasks.map({ t -> await(t) }).sum())
let t = spawn { ask_user("Never?") }
cancel(t)
"#;
    let dir = folder(&[("main.harn", program)]);
    let ran = durable(dir.path(), &["main.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "1\n50\n"), "{}", ran.shown());
    assert_eq!(harn_in(dir.path(), &["replay", "r"]).out, "1\n50\n");
}

#[test]
fn a_process_that_stays_is_woken() {
    let program = "import { create, wait } from \"std/waitpoint\"\nlet w = create(\"w\")\nwrite_file(\"ready\", \"\")\nprintln(wait(w).value)\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    let child = command(&["run", "--durable", "--run-id", "r", "--suspend-after", "never", "main.harn"])
        .current_dir(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !path.join("ready").exists() || shown(path)["pending"].as_array().is_none_or(Vec::is_empty) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(harn_in(path, &["answer", "r", "w", "hello"]).code, 0);
    let out = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout), "hello\n", "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn programs_that_share_an_event_log_share_waitpoints() {
    let wait = "import { create, wait } from \"std/waitpoint\"\nlet w = wait(create(\"shared\"))\nprintln([w.value, w.completed_by])\n";
    let complete = "import { complete } from \"std/waitpoint\"\nprintln(complete(\"shared\", [1, 2], {by: \"other\"}).status)\n";
    let dir = folder(&[("wait.harn", wait), ("complete.harn", complete)]);
    let path = dir.path();
    let shared = |file: &str| {
        let mut harn = command(&["run", file]);
        harn.current_dir(path).env("HARN_EVENT_LOG_BACKEND", "sqlite");
        harn
    };
    let early = finish(shared("complete.harn"), b"");
    assert!(early.code == 1 && early.err.contains("there is no waitpoint 'shared'"), "{}", early.shown());
    let waiting = shared("wait.harn").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut done = finish(shared("complete.harn"), b"");
    while done.code != 0 {
        assert!(done.err.contains("there is no waitpoint"), "{}", done.shown());
        std::thread::sleep(Duration::from_millis(20));
        done = finish(shared("complete.harn"), b"");
    }
    assert_eq!(done.out, "completed\n");
    let out = waiting.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout), "[[1, 2], other]\n");
    let twice = finish(shared("complete.harn"), b"");
    assert!(twice.code == 1 && twice.err.contains("is completed already"), "{}", twice.shown());
    // A later process finds it completed.
    assert_eq!(finish(shared("wait.harn"), b"").out, "[[1, 2], other]\n");
}
