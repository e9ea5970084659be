//! The event log on disk, enabled by environment variables.

use std::path::Path;
use std::process::Stdio;

use crate::common::{Ran, command, finish, folder};

const KEPT: [(&str, &str); 1] = [("HARN_EVENT_LOG_BACKEND", "sqlite")];

fn run(project: &Path, env: &[(&str, &str)], args: &[&str]) -> Ran {
    let mut harn = command(args);
    harn.current_dir(project).envs(env.iter().copied());
    finish(harn, b"")
}

#[test]
fn events_outlive_the_program() {
    let project = folder(&[("harn.toml", ""), ("sub/x.harn", "")]);
    let path = project.path();
    let first = "println(event_log.latest(\"builds\"))\n\
        println(event_log.emit(\"builds\", \"started\", {commit: \"abc\", of: [1, nil]}, {host: \"ci\"}))\n\
        println(event_log.emit(\"builds\", \"ended\"))\n\
        println(event_log.emit(\"other\", \"x\"))";
    assert_eq!(run(path, &KEPT, &["run", "-e", "println(event_log.latest(\"builds\"))"]).out, "nil\n");
    assert!(!path.join(".harn").exists(), "reading makes no folder");
    let ran = run(path, &KEPT, &["run", "-e", first]);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("nil\n1\n2\n1\n", ""));
    assert!(path.join(".harn/events.sqlite").is_file());
    let second = "println(event_log.latest(\"builds\"))\n\
        for e in event_log.subscribe(\"builds\") {\n\
          println(\"${e.id} ${e.cursor} ${e.topic} ${e.kind} ${e.payload} ${e.headers} ${type_of(e.occurred_at_ms)}\")\n\
          if e.id == 3 { break }\n\
          if e.id == 2 { event_log.emit(\"builds\", \"live\", \"a\") }\n\
        }\n\
        for e in event_log.subscribe({topic: \"builds\", from_cursor: 2}) { println(e.payload); break }";
    // A program in a subdirectory uses the project's log.
    std::fs::write(path.join("sub/x.harn"), second).unwrap();
    let ran = run(path, &KEPT, &["run", "sub/x.harn"]);
    let lines = "2\n1 1 builds started {commit: abc, of: [1, nil]} {host: ci} int\n\
        2 2 builds ended nil {} int\n3 3 builds live a {} int\na\n";
    assert_eq!((ran.out.as_str(), ran.err.as_str()), (lines, ""));
    // Without the variable a program has its own log.
    assert_eq!(run(path, &[], &["run", "-e", "println(event_log.latest(\"builds\"))"]).out, "nil\n");
}

#[test]
fn the_file_may_lie_elsewhere() {
    let project = folder(&[("harn.toml", "")]);
    let path = project.path();
    let emit = ["run", "-e", "println(event_log.emit(\"t\", \"k\"))"];
    let named = [KEPT[0], ("HARN_EVENT_LOG_SQLITE_PATH", "log/own.db")];
    assert_eq!(run(path, &named, &emit).out, "1\n");
    assert!(path.join("log/own.db").is_file());
    let state = [KEPT[0], ("HARN_STATE_DIR", "kept")];
    assert_eq!(run(path, &state, &emit).out, "1\n");
    assert!(path.join("kept/events.sqlite").is_file() && !path.join(".harn").exists());
}

#[test]
fn programs_add_at_the_same_time_and_hear_of_each_other() {
    let project = folder(&[("harn.toml", "")]);
    let path = project.path();
    let reader = "var seen = 0\nvar sum = 0\n\
        for e in event_log.subscribe(\"t\") {\n  seen = seen + 1\n  sum = sum + e.payload\n\
          if e.id != seen { println(\"gap at ${seen}\") }\n  if seen == 150 { break }\n}\nprintln(\"${seen} ${sum}\")";
    let start = |program: &str| {
        let mut harn = command(&["run", "-e", program]);
        harn.current_dir(path).envs(KEPT).stdout(Stdio::piped()).stderr(Stdio::piped());
        harn.spawn().unwrap()
    };
    let mut all = vec![start(reader)];
    all.extend((0..3).map(|_| start("for i in 1 to 50 { event_log.emit(\"t\", \"k\", i) }")));
    let ended: Vec<_> = all.into_iter().map(|harn| harn.wait_with_output().unwrap()).collect();
    let text = |n: usize| (String::from_utf8_lossy(&ended[n].stdout).into_owned(), ended[n].status.success());
    let errors: String = ended.iter().map(|ran| String::from_utf8_lossy(&ran.stderr).into_owned()).collect();
    assert_eq!((text(0), errors.as_str()), (("150 3825\n".to_owned(), true), ""));
}

#[test]
fn wrong_variables_are_errors() {
    let project = folder(&[("harn.toml", "")]);
    let path = project.path();
    for (name, value, error) in [
        (KEPT[0].0, "postgres", "HARN_EVENT_LOG_BACKEND must be 'memory' or 'sqlite', not 'postgres'"),
        (KEPT[0].0, "file", "HARN_EVENT_LOG_BACKEND=file is not supported; 'sqlite' keeps events in a file"),
        ("HARN_EVENT_LOG_DIR", "x", "HARN_EVENT_LOG_DIR is not supported; use HARN_EVENT_LOG_BACKEND=sqlite"),
        ("HARN_EVENT_LOG_SQLITE_PATH", "x", "HARN_EVENT_LOG_SQLITE_PATH has no effect without"),
        (
            "HARN_EVENT_LOG_QUEUE_DEPTH",
            "0",
            "HARN_EVENT_LOG_QUEUE_DEPTH must be a whole number from 1 on, not '0'",
        ),
        ("HARN_EVENT_LOG_QUEUE_DEPTH", "many", "must be a whole number from 1 on, not 'many'"),
    ] {
        let ran = run(path, &[(name, value)], &["run", "-e", "println(1)"]);
        assert!(ran.code != 0 && ran.out.is_empty() && ran.err.contains(error), "{name}: {}", ran.shown());
    }
    for (name, backend) in [("HARN_EVENT_LOG_DIR", "sqlite"), ("HARN_EVENT_LOG_SQLITE_PATH", "memory")] {
        let ran = run(path, &[(KEPT[0].0, backend), (name, "x")], &["run", "-e", "println(1)"]);
        assert!(ran.code != 0 && ran.out.is_empty() && ran.err.contains(name), "{name}: {}", ran.shown());
    }
    std::fs::write(path.join("main.harn"), "println(1)").unwrap();
    let durable = run(path, &KEPT, &["run", "--durable", "main.harn"]);
    assert!(durable.err.contains("cannot be used with a durable run"), "{}", durable.shown());
    // A file that is not a database causes a catchable error and is not changed.
    std::fs::create_dir_all(path.join(".harn")).unwrap();
    std::fs::write(path.join(".harn/events.sqlite"), "not a database, but long enough to look at".repeat(40))
        .unwrap();
    let program = "let r = try { event_log.emit(\"t\", \"k\") }\nprintln(unwrap_err(r))";
    let ran = run(path, &KEPT, &["run", "-e", program]);
    assert!(ran.out.contains("event_log: ") && ran.out.contains("events.sqlite"), "{}", ran.shown());
}

#[test]
fn who_may_not_write_files_keeps_no_events_there() {
    let project = folder(&[("harn.toml", "")]);
    let emit = "let r = try { event_log.emit(\"t\", \"k\") }\nprintln(is_err(r))";
    let ran = run(project.path(), &KEPT, &["run", "--sandbox=read_only", "-e", emit]);
    assert_eq!(ran.out, "true\n", "{}", ran.shown());
    assert!(!project.path().join(".harn").exists());
}

#[test]
fn a_live_subscriber_may_be_so_far_behind() {
    let project = folder(&[("harn.toml", "")]);
    let program = "event_log.emit(\"t\", \"k\", 0)\n\
        let events = event_log.subscribe(\"t\")\n\
        fn read(events) { return try { events.next().value.payload } }\n\
        println(read(events))\n\
        spawn { for i in 1 to 2 { event_log.emit(\"t\", \"k\", i) } }\n\
        println(read(events))\n\
        for i in 3 to 5 { event_log.emit(\"t\", \"k\", i) }\n\
        println(read(events))";
    for (backend, depth, last) in [
        ("memory", "3", "Result.Err(Runtime error: event_log: subscriber lagged behind after event 2)"),
        ("sqlite", "3", "Result.Ok(2)"),
        ("memory", "10", "Result.Ok(2)"),
    ] {
        let env = [("HARN_EVENT_LOG_BACKEND", backend), ("HARN_EVENT_LOG_QUEUE_DEPTH", depth)];
        let ran = run(project.path(), &env, &["run", "-e", program]);
        assert_eq!(ran.out.lines().last(), Some(last), "{}", ran.shown());
    }
}
