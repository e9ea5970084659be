//! Runs that fail, are retried, cancelled, paused and removed.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::background::{drain, start, stop, submit_as, until};
use crate::common::{command, durable, folder, harn_in, shown_of, text};

/// Runs workers until a run has this status.
fn drain_until(folder: &Path, id: &str, status: &str) {
    until(status, || {
        drain(folder);
        shown_of(folder, id)["status"] == status
    });
}

fn worker(folder: &Path) -> Child {
    start(folder, &["worker", "--lease", "2s"])
}

/// Returns a list of runs as JSON.
fn ids(folder: &Path, args: &[&str]) -> Vec<String> {
    let ran = harn_in(folder, &[&["runs", "list", "--json"], args].concat());
    let data: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.shown()));
    let runs = data["data"]["runs"].as_array().cloned().unwrap_or_default();
    runs.iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_failed_run_keeps_its_error() {
    let program = r#"
fn pay(n) {
  let r = exec("sh", "-c", "exit 3")
  if r.status != 0 { throw {category: "tool_error", message: "payment ${n} failed: ${r.status}"} }
}
fn all() { pay(1) }
all()
"#;
    let dir = folder(&[("main.harn", program), ("ok.harn", "println(1)")]);
    let path = dir.path();
    submit_as(path, "r", &["main.harn"]);
    submit_as(path, "ok", &["ok.harn"]);
    drain(path);
    let run = shown_of(path, "r");
    let failure = &run["failure"];
    assert_eq!((&run["status"], &run["exit_code"], &run["tries"]), (&"failed".into(), &1.into(), &1.into()));
    assert_eq!(failure["category"], "tool_error", "{failure}");
    assert!(failure["message"].as_str().unwrap().contains("payment 1 failed: 3"), "{failure}");
    assert_eq!(failure["at"], "main.harn:4", "{failure}");
    let names: Vec<&str> =
        failure["stack"].as_array().unwrap().iter().filter_map(|call| call["function"].as_str()).collect();
    assert!(names.contains(&"all"), "{failure}");
    assert_eq!(
        (&failure["last_effect"]["name"], &failure["last_effect"]["about"]),
        (&"run".into(), &"sh -c exit 3".into())
    );
    assert!(run["note"].as_str().unwrap().contains("payment 1 failed: 3"), "{run}");
    assert_eq!(shown_of(path, "ok")["failure"], Value::Null);
    let table = harn_in(path, &["runs", "list", "--failed"]);
    assert!(table.out.contains("LAST EFFECT") && table.out.contains("run sh -c exit 3"), "{}", table.shown());
    assert!(table.out.contains("tool_error") && !table.out.contains("ok "), "{}", table.shown());
    let page = harn_in(path, &["runs", "show", "r"]).out;
    assert!(page.contains("\nerror     ") && page.contains("in all, main.harn:6"), "{page}");
    assert_eq!(ids(path, &["--filter", "category=tool_error"]), ["r"]);
    assert_eq!(ids(path, &["--filter", "status=completed,program=ok.harn"]), ["ok"]);
    assert_eq!(ids(path, &["--filter", "older-than=1h"]), Vec::<String>::new());
    for (filter, why) in [
        ("state=failed", "unknown key 'state'"),
        ("failed", "expected KEY=VALUE"),
        ("status=bad", "expected one of"),
    ] {
        let wrong = harn_in(path, &["runs", "list", "--filter", filter]);
        assert!(wrong.code == 2 && wrong.err.contains(why), "{}", wrong.shown());
    }
}

#[test]
fn a_failed_run_without_a_worker_keeps_its_error_too() {
    let dir = folder(&[("main.harn", "let key = env(\"SHOP_TOKEN\")\nthrow \"bad ${key}\"")]);
    let path = dir.path();
    let mut run = command(&["run", "--durable", "--run-id", "r", "main.harn"]);
    run.current_dir(path).env("SHOP_TOKEN", "very-secret-value");
    assert_eq!(crate::common::finish(run, b"").code, 1);
    let shown = shown_of(path, "r");
    assert_eq!(shown["status"], "failed");
    let failure = shown["failure"].to_string();
    assert!(failure.contains("bad ") && !failure.contains("very-secret-value"), "{failure}");
}

#[test]
fn a_retry_repeats_only_what_failed() {
    let program = r#"
append_file("once.txt", "x")
let r = exec("sh", "-c", "echo t >> tries.txt; test $(wc -l < tries.txt) -ge 3")
if r.status != 0 { throw "not yet" }
println("done")
"#;
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    submit_as(path, "r", &["--retries", "5", "--retry-delay", "100ms", "main.harn"]);
    let first = drain(path);
    let run = shown_of(path, "r");
    assert_eq!(run["status"], "queued", "{run}\n{}", first.shown());
    assert_eq!((&run["tries"], &run["failure"]["try"]), (&1.into(), &1.into()));
    assert!(run["note"].as_str().unwrap().starts_with("try 1 of 6 failed: "), "{run}");
    drain_until(path, "r", "completed");
    let run = shown_of(path, "r");
    assert_eq!((&run["tries"], &run["failure"]), (&2.into(), &Value::Null));
    assert_eq!(
        (text(&path.join("once.txt")).as_str(), text(&path.join("tries.txt")).lines().count()),
        ("x", 3)
    );
    let replayed = harn_in(path, &["replay", "r"]);
    assert_eq!((replayed.code, replayed.out.as_str()), (0, "done\n"), "{}", replayed.shown());
}

/// Returns the stored retry policy of a run.
fn policy(folder: &Path, id: &str) -> Value {
    let exported = harn_in(folder, &["runs", "export", id]).out;
    let head: Value = serde_json::from_str(exported.lines().next().unwrap_or_default()).unwrap();
    let info: Value = serde_json::from_str(head["info"]["text"].as_str().unwrap_or_default()).unwrap();
    info["retry"].clone()
}

#[test]
fn a_program_declares_how_it_is_retried() {
    let body = "pipeline main() {\n  let r = exec(\"sh\", \"-c\", \"echo t >> tries.txt; test $(wc -l < tries.txt) -ge 3\")\n  if r.status != 0 { throw \"not yet\" }\n}\n";
    let program = format!("@retry(retries: 4, backoff: fixed, delay: 1ms)\n{body}");
    let dir = folder(&[
        ("main.harn", program.as_str()),
        ("plain.harn", body),
        ("harn.toml", "[runs]\nretries = 1\nmax_retry_delay = \"2m\"\n"),
    ]);
    let path = dir.path();
    submit_as(path, "r", &["main.harn"]);
    drain_until(path, "r", "completed");
    assert_eq!(
        (&shown_of(path, "r")["tries"], text(&path.join("tries.txt")).lines().count()),
        (&2.into(), 3)
    );
    let of_program = json!({"retries": 4, "backoff": "fixed", "delay_ms": 1, "max_delay_ms": 120_000});
    assert_eq!(policy(path, "r"), of_program, "the manifest decides what the program leaves open");
    submit_as(path, "options", &["--retries", "7", "--backoff", "linear", "main.harn"]);
    let of_options = json!({"retries": 7, "backoff": "linear", "delay_ms": 1, "max_delay_ms": 120_000});
    assert_eq!(policy(path, "options"), of_options);
    submit_as(path, "never", &["--retries", "0", "main.harn"]);
    assert_eq!(policy(path, "never"), Value::Null);
    submit_as(path, "plain", &["plain.harn"]);
    assert_eq!(policy(path, "plain")["retries"], 1);
    std::fs::write(path.join("lines.jsonl"), "{\"id\": \"line\"}\n").unwrap();
    assert_eq!(harn_in(path, &["submit", "--input-file", "lines.jsonl", "main.harn"]).code, 0);
    assert_eq!(policy(path, "line"), of_program);
}

#[test]
fn a_wrong_retry_policy_is_not_submitted() {
    let dir = folder(&[]);
    let path = dir.path();
    for (arguments, why) in [
        ("", "main.harn:1:1: `@retry` needs `retries`, such as `@retry(retries: 5)`"),
        ("(5)", "main.harn:1:8: the arguments of `@retry` have names, such as `retries: 5`"),
        ("(retries: 1001)", "`retries` of `@retry` must be a number from 0 to 1000"),
        ("(retries: -1)", "`retries` of `@retry` must be a number from 0 to 1000"),
        ("(retries: 1, retries: 2)", "duplicate argument `retries` of `@retry`"),
        (
            "(retries: 1, backoff: \"slow\")",
            "`backoff` of `@retry` must be \"exponential\", \"linear\" or \"fixed\"",
        ),
        ("(retries: 1, delay: 2)", "`delay` of `@retry` must be a duration such as `2s`"),
        ("(retrys: 1)", "`@retry` takes no argument `retrys`; did you mean `retries`?"),
        (
            "(retries: 1, jitter: true)",
            "`@retry` takes no argument `jitter`; expected `retries`, `backoff`, `delay` or",
        ),
    ] {
        std::fs::write(path.join("main.harn"), format!("@retry{arguments}\npipeline main() {{ 1 }}\n"))
            .unwrap();
        let ran = harn_in(path, &["submit", "main.harn"]);
        assert!(ran.code == 1 && ran.err.contains(why), "{arguments}: {}", ran.shown());
    }
    assert!(harn_in(path, &["runs", "list"]).out.starts_with("No runs"), "nothing was queued");
}

#[test]
fn after_its_last_try_a_run_stays_failed_until_a_user_retries_it() {
    let program = "append_file(\"once.txt\", \"x\")\nif !file_exists(\"ready\") { throw \"not ready\" }\nprintln(\"ready\")\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    submit_as(path, "r", &["--retries", "2", "--retry-delay", "1ms", "--backoff", "fixed", "main.harn"]);
    drain_until(path, "r", "failed");
    let run = shown_of(path, "r");
    assert_eq!(run["tries"], 3, "{run}");
    assert!(run["note"].as_str().unwrap().ends_with("not ready (after 3 tries)"), "{run}");
    assert_eq!(text(&path.join("once.txt")), "x");
    let table = harn_in(path, &["runs", "list", "--failed"]);
    assert!(table.out.contains(" 3 "), "{}", table.out);
    std::fs::write(path.join("ready"), "").unwrap();
    let retried = harn_in(path, &["runs", "retry", "r"]);
    assert!(
        retried.code == 0 && retried.out.starts_with("run r queued; it continues at entry "),
        "{}",
        retried.shown()
    );
    assert_eq!(drain(path).out, "ready\n");
    assert_eq!(
        (shown_of(path, "r")["status"].as_str(), text(&path.join("once.txt")).as_str()),
        (Some("completed"), "x")
    );
    let wrong = harn_in(path, &["runs", "retry", "r"]);
    assert!(wrong.code == 1 && wrong.err.contains("is completed; `harn runs requeue`"), "{}", wrong.shown());
    // After a restart from the beginning, all effects are repeated.
    assert_eq!(harn_in(path, &["runs", "requeue", "r"]).out, "run r queued from its start\n");
    assert_eq!(shown_of(path, "r")["status"], "queued");
    assert_eq!(drain(path).out, "ready\n");
    assert_eq!(text(&path.join("once.txt")), "xx");
}

#[test]
fn what_succeeded_and_must_not_happen_twice_is_never_retried() {
    let program = "exec(\"sh\", \"-c\", \"echo paid >> paid.txt\")\nthrow \"no\"\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    submit_as(path, "r", &["--retries", "2", "--retry-delay", "1ms", "main.harn"]);
    drain_until(path, "r", "failed");
    assert_eq!((&shown_of(path, "r")["tries"], text(&path.join("paid.txt")).as_str()), (&3.into(), "paid\n"));
    // A program that cannot be compiled fails immediately.
    std::fs::write(path.join("bad.harn"), "let = 3\n").unwrap();
    submit_as(path, "bad", &["--retries", "5", "bad.harn"]);
    drain(path);
    let run = shown_of(path, "bad");
    assert_eq!(
        (&run["status"], &run["tries"], &run["failure"]["kind"]),
        (&"failed".into(), &1.into(), &"diagnostics".into())
    );
}

const LONG: &str = "append_file(\"begun.txt\", \"x\")\nfor i in 1 to 100000 { sleep(20) }\n";

#[test]
fn a_run_is_paused_and_cancelled_by_the_process_that_has_it() {
    let dir = folder(&[("main.harn", LONG)]);
    let path = dir.path();
    submit_as(path, "r", &["main.harn"]);
    let worker = worker(path);
    until("the run has begun", || !text(&path.join("begun.txt")).is_empty());
    let asked = harn_in(path, &["runs", "pause", "r"]);
    assert_eq!(asked.out, "run r will be paused by the process that executes it\n", "{}", asked.shown());
    until("it is paused", || shown_of(path, "r")["status"] == "paused");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(
        (&shown_of(path, "r")["status"], &shown_of(path, "r")["waits_for"]),
        (&"paused".into(), &"unpause".into())
    );
    let again = harn_in(path, &["runs", "pause", "r"]);
    assert!(again.code == 1 && again.err.contains("is paused"), "{}", again.shown());
    assert_eq!(harn_in(path, &["runs", "unpause", "r"]).out, "run r queued\n");
    until("it runs again", || shown_of(path, "r")["status"] == "running");
    until("it is held", || harn_in(path, &["runs", "cancel", "r"]).code == 0);
    until("it is cancelled", || shown_of(path, "r")["status"] == "cancelled");
    stop(worker);
    assert_eq!(text(&path.join("begun.txt")), "x");
    let ended = harn_in(path, &["runs", "cancel", "r"]);
    assert!(ended.code == 1 && ended.err.contains("run 'r' is cancelled; it has ended"), "{}", ended.shown());
    assert_eq!(drain(path).code, 0);
    assert_eq!(shown_of(path, "r")["status"], "cancelled");
}

#[test]
fn runs_that_nobody_has_are_changed_at_once_by_name_and_by_filter() {
    let dir = folder(&[("main.harn", "println(argv[0])"), ("other.harn", "println(0)")]);
    let path = dir.path();
    for id in ["a1", "a2", "b"] {
        submit_as(path, id, &["main.harn", "--", id]);
    }
    submit_as(path, "c", &["other.harn"]);
    let paused = harn_in(path, &["runs", "pause", "--filter", "id=a", "--json"]);
    let data: Value = serde_json::from_str(&paused.out).unwrap();
    let expected = json!([{"id": "a1", "result": "paused"}, {"id": "a2", "result": "paused"}]);
    assert_eq!(data["data"]["runs"], expected, "{}", paused.shown());
    assert_eq!(harn_in(path, &["runs", "cancel", "--filter", "program=other.harn"]).out, "run c cancelled\n");
    assert_eq!(drain(path).out, "b\n");
    assert_eq!(harn_in(path, &["runs", "unpause", "a2"]).out, "run a2 queued\n");
    assert_eq!(drain(path).out, "a2\n");
    assert_eq!(shown_of(path, "a1")["status"], "paused");
    // Runs with another status are skipped.
    assert_eq!(harn_in(path, &["runs", "unpause", "--filter", "status=completed"]).out, "No runs.\n");
    assert_eq!(harn_in(path, &["runs", "retry", "c"]).out, "run c queued; it continues at entry 0\n");
    assert_eq!(drain(path).out, "0\n");
    for args in [&["runs", "pause"][..], &["runs", "pause", "a1", "--filter", "id=a"]] {
        assert_eq!(harn_in(path, args).code, 2, "{args:?}");
    }
    let missing = harn_in(path, &["runs", "cancel", "x"]);
    assert!(missing.code == 1 && missing.err.contains("unknown run 'x'"), "{}", missing.shown());
}

#[test]
fn old_runs_are_removed() {
    let dir = folder(&[("main.harn", "println(1)"), ("bad.harn", "throw \"no\"")]);
    let path = dir.path();
    for n in 0..3 {
        submit_as(path, &format!("r{n}"), &["main.harn"]);
    }
    submit_as(path, "bad", &["bad.harn"]);
    drain(path);
    submit_as(path, "open", &["main.harn"]);
    assert_eq!(harn_in(path, &["runs", "prune", "--older-than", "1h"]).out, "0 runs removed\n");
    let dry = harn_in(path, &["runs", "prune", "--older-than", "1ms", "--status", "completed", "--dry-run"]);
    assert_eq!(dry.out, "3 runs would be removed\n", "{}", dry.shown());
    let sizes = harn_in(path, &["runs", "list", "--size", "--limit", "1"]);
    assert!(sizes.out.contains("BYTES"), "{}", sizes.out);
    assert!(shown_of(path, "r1")["bytes"].as_u64().unwrap() > 100);
    let pruned = harn_in(path, &["runs", "prune", "--older-than", "1ms", "--status", "completed", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&pruned.out).unwrap()["data"]["removed"], 3);
    assert_eq!(ids(path, &[]), ["open", "bad"]);
    assert_eq!(harn_in(path, &["runs", "prune", "--older-than", "1ms"]).out, "1 runs removed\n");
    assert_eq!(ids(path, &[]), ["open"]);
    let wrong = harn_in(path, &["runs", "prune", "--older-than", "1h", "--status", "queued"]);
    assert!(
        wrong.code == 2 && wrong.err.contains("expected completed, failed or cancelled"),
        "{}",
        wrong.shown()
    );
}

/// Runs wait until their database is available again, whichever process owned them.
#[cfg(feature = "postgres")]
#[test]
fn an_outage_of_the_database_is_waited_out() {
    let Some(mut server) = crate::server::Server::start() else { return };
    let url = server.database();
    let program = r#"
let id = argv[0]
for i in 1 to 6 {
  append_file("log-${id}.txt", "${i}\n")
  sleep(400)
}
"#;
    let dir = folder(&[("main.harn", program), ("harn.toml", &format!("[store]\nurl = \"{url}\"\n"))]);
    let path = dir.path();
    for id in 0..8 {
        submit_as(path, &format!("r{id}"), &["main.harn", "--", &id.to_string()]);
    }
    let two = [worker(path), worker(path)];
    for pause in [1, 4] {
        until("some work", || text(&path.join("log-0.txt")).lines().count() >= 1);
        server.tell("crash");
        std::thread::sleep(Duration::from_secs(pause));
        server.tell("start");
        std::thread::sleep(Duration::from_millis(700));
    }
    until("all runs have ended", || {
        harn_in(path, &["runs", "list", "--status", "completed", "--json"]).out.matches("\"starts\"").count()
            == 8
    });
    two.into_iter().for_each(stop);
    for id in 0..8 {
        assert_eq!(text(&path.join(format!("log-{id}.txt"))), "1\n2\n3\n4\n5\n6\n");
    }
}

#[test]
fn a_retry_prints_nothing_twice() {
    let program = "println(\"one\")\neprintln(\"begun\")\nfor name in [\"a\", \"b\"] {\n  \
                   try { println(read_file(name)) } finally { println(\"after ${name}\") }\n}\nprintln(\"end\")\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    let first = durable(path, &["main.harn"]);
    assert_eq!((first.code, first.out.as_str()), (1, "one\nafter a\n"), "{}", first.shown());
    let again = |out: &str, code: i32| {
        assert_eq!(harn_in(path, &["runs", "retry", "r"]).code, 0);
        let resumed = harn_in(path, &["resume", "r"]);
        assert_eq!((resumed.code, resumed.out.as_str()), (code, out), "{}", resumed.shown());
        assert!(!resumed.err.contains("begun"), "{}", resumed.shown());
    };
    again("after a\n", 1);
    std::fs::write(path.join("a"), "A").unwrap();
    again("A\nafter a\nafter b\n", 1);
    again("after b\n", 1);
    std::fs::write(path.join("b"), "B").unwrap();
    again("B\nafter b\nend\n", 0);
    let replayed = harn_in(path, &["replay", "r"]);
    let all = "one\nA\nafter a\nB\nafter b\nend\n";
    assert_eq!((replayed.code, replayed.out.as_str()), (0, all), "{}", replayed.shown());
}
