//! Sessions that outlive their process.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use crate::common::{command, folder, harn_in};

const OPEN: &str = "let s = agent_session_open(\"support\", {persist: true})\n";

#[test]
fn a_later_process_goes_on() {
    let dir = folder(&[
        ("harn.toml", "[package]\nname = \"p\"\nversion = \"0.1.0\"\n"),
        (
            "talk.harn",
            "let s = agent_session_open(\"support\", {persist: true})\nprintln(agent_session_length(s))\n\
             agent_loop(\"My name is Ada.\", nil, {provider: \"mock\", session_id: s})\nprintln(llm_mock_calls()[0].messages.len())\n",
        ),
        (
            "edit.harn",
            "let s = agent_session_open(\"support\", {persist: true})\nagent_session_trim(s, 1)\n\
             agent_session_inject(s, {role: \"user\", content: \"new\"})\nprintln(agent_session_snapshot(s).messages.map({ m -> m.content }).len())\n",
        ),
    ]);
    assert_eq!(harn_in(dir.path(), &["run", "talk.harn"]).out, "0\n1\n");
    assert_eq!(harn_in(dir.path(), &["run", "talk.harn"]).out, "2\n3\n");
    assert_eq!(harn_in(dir.path(), &["run", "edit.harn"]).out, "2\n");
    assert_eq!(harn_in(dir.path(), &["run", "talk.harn"]).out, "2\n3\n");
}

#[test]
fn tasks_of_one_program_write_at_the_same_time() {
    let dir = folder(&[
        ("harn.toml", ""),
        (
            "a.harn",
            "let s = agent_session_open(\"s\", {persist: true})\n\
             parallel each 1 to 50 { n -> agent_session_inject(s, {role: \"user\", content: \"${n}\"}) }\n\
             try { deadline 1ms { while true { agent_session_inject(s, {role: \"user\", content: \"more\"}) } } }\n\
             agent_session_inject(s, {role: \"user\", content: \"last\"})\nprintln(agent_session_length(s))\n",
        ),
        (
            "b.harn",
            "let s = agent_session_open(\"s\", {persist: true})\nprintln(agent_session_length(s))\n\
             println(agent_session_snapshot(s).messages[-1].content)\n",
        ),
    ]);
    let wrote = harn_in(dir.path(), &["run", "a.harn"]);
    assert_eq!(wrote.code, 0, "{}", wrote.err);
    assert_eq!(harn_in(dir.path(), &["run", "b.harn"]).out, format!("{}last\n", wrote.out));
}

#[test]
fn a_project_can_keep_all_sessions() {
    let dir = folder(&[
        ("harn.toml", "[package]\nname = \"p\"\nversion = \"0.1.0\"\n\n[sessions]\npersist = true\n"),
        (
            "call.harn",
            "llm_call(\"Hi\", nil, {provider: \"mock\", session_id: \"chat\"})\nprintln(agent_session_length(\"chat\"))\n",
        ),
    ]);
    assert_eq!(harn_in(dir.path(), &["run", "call.harn"]).out, "2\n");
    assert_eq!(harn_in(dir.path(), &["run", "call.harn"]).out, "4\n");
    let wrong = folder(&[("harn.toml", "[sessions]\npersits = true\n"), ("a.harn", "println(1)\n")]);
    let ran = harn_in(wrong.path(), &["run", "a.harn"]);
    assert!(ran.code == 1 && ran.err.contains("[sessions] has no key 'persits'"), "{}", ran.err);
}

#[test]
fn who_may_not_write_files_keeps_no_sessions() {
    let dir = folder(&[("harn.toml", ""), ("a.harn", OPEN)]);
    let ran = harn_in(dir.path(), &["run", "--sandbox=read_only", "a.harn"]);
    assert!(ran.code == 1 && !dir.path().join(".harn").exists(), "{}", ran.err);
}

/// Every message whose number was printed is stored after a kill, in order and complete.
#[test]
fn what_was_acknowledged_survives_a_kill() {
    let kills = std::env::var("HARN_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let dir = folder(&[
        ("harn.toml", ""),
        (
            "write.harn",
            "let s = agent_session_open(\"support\", {persist: true})\nvar n = agent_session_length(s)\n\
             while true {\n  agent_session_inject(s, {role: \"user\", content: \"message ${n}\"})\n  n = n + 1\n  println(n)\n}\n",
        ),
        (
            "read.harn",
            "let s = agent_session_open(\"support\", {persist: true})\nvar n = 0\n\
             for m in agent_session_snapshot(s).messages {\n  if m.content != \"message ${n}\" { throw \"found ${m.content} at ${n}\" }\n  n = n + 1\n}\nprintln(n)\n",
        ),
    ]);
    for kill in 0..kills {
        let mut child = command(&["run", "write.harn"]);
        let mut child = child.current_dir(dir.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut told = 0;
        // After the first messages, at a different position each time.
        for _ in 0..=(kill * 7) % 23 {
            told = lines.next().unwrap().unwrap().parse::<u64>().unwrap();
        }
        std::thread::sleep(Duration::from_micros(kill * 431 % 5_000));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            // The kill may truncate the last line.
            told = line.parse().map_or(told, |n: u64| told.max(n));
        }
        let read = harn_in(dir.path(), &["run", "read.harn"]);
        assert_eq!(read.code, 0, "{}", read.err);
        let kept: u64 = read.out.trim().parse().unwrap();
        // More messages may be stored than were printed: output is buffered until the program waits.
        assert!(kept >= told, "{told} told, {kept} kept");
    }
}

/// Starts a durable run that adds four messages, and kills it after two.
fn killed_in_the_middle(dir: &std::path::Path) {
    let mut command = command(&["run", "--durable", "--run-id", "r", "say.harn"]);
    let mut child = command.current_dir(dir).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "said 2"));
    child.kill().unwrap();
    child.wait().unwrap();
}

const SAY: &str = "let s = agent_session_open(\"s\", {persist: true})\nprintln(agent_session_length(s))\n\
                   for n in 1 to 4 {\n  agent_session_inject(s, {role: \"user\", content: \"${n}\"})\n  println(\"said ${n}\")\n\
                   \x20 sleep(300ms)\n}\n";

const SHOW: &str = "let s = agent_session_open(\"s\", {persist: true})\n\
                    println(agent_session_snapshot(s).messages.map({ m -> m.content }))\n";

#[test]
fn a_durable_run_goes_on_with_its_session() {
    let dir = folder(&[("harn.toml", ""), ("say.harn", SAY), ("show.harn", SHOW)]);
    killed_in_the_middle(dir.path());
    let resumed = harn_in(dir.path(), &["resume", "r"]);
    assert_eq!(resumed.code, 0, "{}", resumed.shown());
    assert!(resumed.out.ends_with("said 3\nsaid 4\n"), "{}", resumed.shown());
    assert_eq!(harn_in(dir.path(), &["run", "show.harn"]).out, "[1, 2, 3, 4]\n");
    // A replay does not read the store: it shows what the run had read.
    let replayed = harn_in(dir.path(), &["replay", "r"]);
    assert_eq!(
        (replayed.code, replayed.out.as_str()),
        (0, "0\nsaid 1\nsaid 2\nsaid 3\nsaid 4\n"),
        "{}",
        replayed.shown()
    );
    assert_eq!(harn_in(dir.path(), &["run", "show.harn"]).out, "[1, 2, 3, 4]\n");
}

#[test]
fn a_session_that_somebody_else_has_changed_is_not_overwritten() {
    let other = "let s = agent_session_open(\"s\", {persist: true})\n\
                 agent_session_inject(s, {role: \"user\", content: \"other\"})\n";
    let dir = folder(&[("harn.toml", ""), ("say.harn", SAY), ("show.harn", SHOW), ("other.harn", other)]);
    killed_in_the_middle(dir.path());
    assert_eq!(harn_in(dir.path(), &["run", "other.harn"]).code, 0);
    let resumed = harn_in(dir.path(), &["resume", "r"]);
    assert_eq!(resumed.code, 1, "{}", resumed.shown());
    assert!(
        resumed.err.contains("session 's': it was changed by another program while this run was interrupted"),
        "{}",
        resumed.shown()
    );
    assert!(harn_in(dir.path(), &["run", "show.harn"]).out.contains("other"));
}

/// Creates two stored sessions: "a" with four messages, then "b" with two.
fn stored() -> tempfile::TempDir {
    let dir = folder(&[
        ("harn.toml", ""),
        (
            "talk.harn",
            "for id in [\"a\", \"a\", \"b\"] {\n  agent_session_open(id, {persist: true})\n  \
             agent_loop(\"Hi ${id}\", nil, {provider: \"mock\", session_id: id})\n}\n",
        ),
    ]);
    let ran = harn_in(dir.path(), &["run", "talk.harn"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    dir
}

#[test]
fn sessions_are_listed_shown_and_exported() {
    let dir = stored();
    let run = |args: &[&str]| harn_in(dir.path(), &[&["sessions"], args].concat());
    let listed: serde_json::Value = serde_json::from_str(&run(&["list", "--json"]).out).unwrap();
    let heads = listed["data"]["sessions"].as_array().unwrap();
    let ids: Vec<_> =
        heads.iter().map(|head| (head["id"].as_str().unwrap(), head["messages"].as_u64())).collect();
    assert_eq!(ids, [("b", Some(2)), ("a", Some(4))]);
    assert!(run(&["list", "--limit", "1"]).out.contains("1 of 2 sessions"));
    let shown = run(&["show", "a", "--last", "2"]).out;
    assert!(shown.starts_with("user: Hi a\nassistant: "), "{shown}");
    assert_eq!(shown.lines().count(), 2, "{shown}");
    assert_eq!(run(&["export", "a", "-o", "a.json"]).code, 0);
    let document = std::fs::read_to_string(dir.path().join("a.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["messages"].as_array().unwrap().len(), 4);
    assert_eq!(document["events"].as_array().unwrap().len(), 2, "one event per turn, each stored once");
    let missing = run(&["show", "nobody"]);
    assert_eq!(missing.code, 1);
    assert!(missing.err.contains("unknown session 'nobody'"), "{}", missing.err);
}

#[test]
fn sessions_are_trimmed_deleted_and_pruned() {
    let dir = stored();
    let run = |args: &[&str]| harn_in(dir.path(), &[&["sessions"], args].concat());
    assert_eq!(run(&["trim", "a", "--keep", "1"]).out, "session a has 1 messages\n");
    assert_eq!(run(&["show", "a"]).out.lines().count(), 1);
    assert!(run(&["prune", "--older-than", "1h", "--dry-run"]).out.contains("No sessions"));
    assert!(run(&["prune", "--older-than", "0s", "--dry-run"]).out.contains("SESSION"));
    assert_eq!(run(&["rm", "a"]).out, "session a deleted\n");
    assert_eq!(run(&["rm", "a"]).code, 1);
    assert_eq!(run(&["prune", "--older-than", "0s"]).out, "1 sessions deleted\n");
    assert_eq!(run(&["list"]).out, "No stored sessions.\n");
    assert!(run(&["prune", "--older-than", "soon"]).err.contains("expected a time such as 90m, 12h or 30d"));
}

#[test]
fn messages_on_the_terminal_have_no_control_characters() {
    let dir = folder(&[
        ("harn.toml", ""),
        (
            "talk.harn",
            "let s = agent_session_open(\"a\", {persist: true})\n\
             agent_session_inject(s, {role: \"user\", content: \"red \\u{1b}[31m\\nassistant: forged\"})\n",
        ),
    ]);
    assert_eq!(harn_in(dir.path(), &["run", "talk.harn"]).code, 0);
    let shown = harn_in(dir.path(), &["sessions", "show", "a"]).out;
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    assert!(!shown.contains("\nassistant:"), "{shown:?}");
}

#[test]
fn memory_that_the_thread_of_the_store_frees_is_not_counted_any_more() {
    let dir = folder(&[
        ("harn.toml", ""),
        (
            "a.harn",
            "let s = agent_session_open(\"s\", {persist: true})\nfor n in 1 to 300 {\n  \
             agent_session_inject(s, {role: \"user\", content: \"y\".repeat(200000)})\n  agent_session_trim(s, 1)\n}\n\
             println(agent_session_length(s))\n",
        ),
    ]);
    // 60 MB pass through the store; 400 KB are in memory at a time.
    let ran = harn_in(dir.path(), &["run", "--max-memory", "24M", "a.harn"]);
    assert_eq!((&*ran.out, ran.code), ("1\n", 0), "{}", ran.err);
}
