//! Several workers on one store: each submitted run executes once, whichever processes are killed or stopped.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::background::{drain, silent, submit, until};
use crate::common::{Chance, command, folder, harn_in, shown_of};

fn runs(folder: &Path) -> Vec<Value> {
    let ran = harn_in(folder, &["runs", "list", "--limit", "1000", "--json"]);
    let data: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.shown()));
    data["data"]["runs"].as_array().cloned().unwrap_or_default()
}

fn worker(folder: &Path) -> Child {
    worker_with(folder, "1s").spawn().unwrap()
}

/// Returns the command of a worker with this lease time.
fn worker_with(folder: &Path, lease: &str) -> Command {
    silent(folder, &["worker", "--concurrency", "2", "--lease", lease])
}

#[test]
fn what_is_submitted_runs_with_its_arguments() {
    let dir = folder(&[
        ("main.harn", "println(\"${argv} ${ask_user(\"Who?\")}\")\n"),
        ("bad.harn", "throw \"no\"\n"),
    ]);
    let path = dir.path();
    let told = submit(path, &["--run-id", "one", "main.harn", "--", "a", "b"]);
    assert_eq!(told.out, "run one queued; `harn worker` runs it\n");
    submit(path, &["--run-id", "two", "bad.harn"]);
    let later = submit(path, &["--run-id", "later", "--at", "1h", "main.harn", "--json"]);
    let later: Value = serde_json::from_str(&later.out).unwrap();
    assert_eq!(later["data"]["id"], "later");
    assert_eq!(shown_of(path, "one")["status"], "queued");
    // The submitted source runs, even if the file changes.
    std::fs::write(path.join("main.harn"), "println(\"changed\")\n").unwrap();
    let ran = drain(path);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.shown());
    assert_eq!(shown_of(path, "one")["status"], "suspended");
    assert_eq!(
        (&shown_of(path, "two")["status"], &shown_of(path, "later")["status"]),
        (&"failed".into(), &"queued".into())
    );
    let request = shown_of(path, "one")["pending"][0]["request_id"].as_str().unwrap().to_owned();
    assert_eq!(harn_in(path, &["answer", "one", &request, "me"]).code, 0);
    let ran = drain(path);
    assert_eq!((ran.code, ran.out.as_str()), (0, "[a, b] me\n"), "{}", ran.shown());
    assert_eq!(shown_of(path, "one")["status"], "completed");
    let taken = harn_in(path, &["submit", "--run-id", "one", "main.harn"]);
    assert!(taken.code == 1 && taken.err.contains("run 'one' already exists"), "{}", taken.shown());
    for (args, why) in [
        (["--at", "soon"], "expected a time such as"),
        (["--every", "* * *"], "expected a cron schedule"),
        (["--every", "0 0 31 2 *"], "never occurs"),
        (["--run-id", "a b"], "invalid run ID 'a b'"),
    ] {
        let refused = harn_in(path, &["submit", args[0], args[1], "main.harn"]);
        assert!(refused.code == 1 && refused.err.contains(why), "{}", refused.shown());
    }
    let help = harn_in(path, &["submit", "--help"]);
    assert!(
        help.out.contains("Usage: harn submit [OPTIONS]") && !help.out.contains("harn run "),
        "{}",
        help.out
    );
    let refused = harn_in(path, &["worker", "--concurrency", "0"]);
    assert!(refused.code == 2 && refused.err.contains("from 1 to 1000"), "{}", refused.shown());
}

#[test]
fn a_schedule_queues_its_next_run_once() {
    let dir = folder(&[("main.harn", "println(\"tick\")\n")]);
    let path = dir.path();
    submit(path, &["--run-id", "s", "--at", "2020-01-01T00:00:00Z", "--every", "@daily", "main.harn"]);
    assert_eq!(shown_of(path, "s-20200101T0000Z")["status"], "queued");
    assert_eq!(drain(path).out, "tick\n");
    let all = runs(path);
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!((&all[1]["status"], &all[0]["status"]), (&"completed".into(), &"queued".into()));
    assert!(all[0]["due_at"].as_str().unwrap().ends_with("T00:00:00Z"), "{all:?}");
    assert_eq!(drain(path).out, "");
    assert_eq!(runs(path).len(), 2);
}

#[test]
fn a_run_whose_process_dies_is_left_to_people() {
    let dir = folder(&[("main.harn", "shell(\"kill -9 $PPID\", {idempotent: true})\n")]);
    let path = dir.path();
    submit(path, &["--run-id", "r", "main.harn"]);
    let ran = drain(path);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let run = shown_of(path, "r");
    assert_eq!((&run["status"], &run["starts"]), (&"suspended".into(), &3.into()), "{run}\n{}", ran.err);
    assert!(run["note"].as_str().unwrap().contains("has ended 3 times"), "{run}");
}

#[test]
fn a_run_that_takes_longer_to_start_than_its_lease_is_started_once() {
    let functions: String = (0..20_000).map(|n| format!("fn f{n}(a) {{ return a + {n} }}\n")).collect();
    let dir = folder(&[("main.harn", &format!("{functions}println(f3(4))\n"))]);
    let path = dir.path();
    submit(path, &["--run-id", "r", "main.harn"]);
    let two = ["500ms", "500ms"].map(|lease| worker_with(path, lease).spawn().unwrap());
    until("the run has ended", || shown_of(path, "r")["status"] == "completed");
    for mut one in two {
        one.kill().unwrap();
        one.wait().unwrap();
    }
    assert_eq!(shown_of(path, "r")["starts"], 1);
}

/// Kills the processes that execute runs of a directory. Returns their number.
fn kill_runs(folder: &Path) -> usize {
    let folder = folder.canonicalize().unwrap();
    let mut killed = 0;
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let is_run = String::from_utf8_lossy(&line).contains("\0resume\0");
        if is_run && std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == folder) {
            signal(&process.file_name().to_string_lossy(), "KILL");
            killed += 1;
        }
    }
    killed
}

/// Sends a signal to a process, if it still exists.
fn signal(pid: &str, signal: &str) {
    let _ = Command::new("kill").args([&format!("-{signal}"), pid]).stderr(Stdio::null()).status();
}

#[test]
fn two_workers_share_the_work_and_one_that_is_killed_loses_nothing() {
    share("");
}

#[cfg(feature = "postgres")]
#[test]
fn two_workers_share_a_database_and_one_that_is_killed_loses_nothing() {
    let Some(url) = crate::server::database() else { return };
    share(&format!("[store]\nurl = \"{url}\"\n"));
}

/// Two workers with the store of the manifest.
fn share(manifest: &str) {
    let wanted: usize = std::env::var("HARN_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    // One file per run: an append in doubt checks the length, so no other process may change it.
    let program = r#"
        let log = "log-${argv[0]}.txt"
        println("begins")
        append_file(log, "a")
        sleep(60)
        println("goes on")
        append_file(log, "b")
    "#;
    let dir = folder(&[("main.harn", program), ("harn.toml", manifest)]);
    let path = dir.path();
    for n in 0..wanted {
        submit(path, &["--run-id", &format!("r{n}"), "main.harn", "--", &n.to_string()]);
    }
    let ended = || runs(path).iter().filter(|run| run["status"] == "completed").count();
    let begin = Instant::now();
    let mut two = [worker(path), worker(path)];
    let (mut killed, mut chance) = (0, Chance(17));
    let rounds = (wanted / 10).max(3);
    for round in 0..rounds {
        until("some runs have ended", || ended() > round * wanted / (rounds + 1));
        std::thread::sleep(Duration::from_millis(chance.below(200)));
        let which = chance.below(2) as usize;
        two[which].kill().unwrap();
        two[which].wait().unwrap();
        // In some rounds the processes of the runs are killed as well; otherwise they end their runs without a worker.
        killed += if round == 0 || chance.below(2) == 0 { kill_runs(path) } else { 0 };
        two[which] = worker(path);
    }
    until("all runs have ended", || ended() == wanted);
    let each = begin.elapsed().as_millis() / wanted as u128;
    println!("{wanted} runs, {rounds} workers and {killed} runs killed: {each} ms per run");
    for mut one in two {
        one.kill().unwrap();
        one.wait().unwrap();
    }
    for n in 0..wanted {
        let log = std::fs::read_to_string(path.join(format!("log-{n}.txt"))).unwrap();
        assert_eq!(log, "ab", "each effect once, {killed} runs killed");
    }
    assert!(runs(path).iter().all(|run| run["exit_code"] == 0));
}

#[cfg(unix)]
#[test]
fn a_process_that_was_stopped_cannot_write_over_its_successor() {
    stop("");
}

#[cfg(feature = "postgres")]
#[test]
fn a_process_that_was_stopped_cannot_write_over_its_successor_in_a_database() {
    let Some(url) = crate::server::database() else { return };
    stop(&format!("[store]\nurl = \"{url}\"\n"));
}

/// A suspended process and its successor, with the store of the manifest.
#[cfg(unix)]
fn stop(manifest: &str) {
    let program = "append_file(\"pids.txt\", shell(\"echo $PPID\").stdout)\nwhile !file_exists(\"go\") { sleep(20) }\nappend_file(\"log.txt\", \"end\\n\")\n";
    let dir = folder(&[("main.harn", program), ("log.txt", ""), ("pids.txt", ""), ("harn.toml", manifest)]);
    let path = dir.path();
    submit(path, &["--run-id", "r", "main.harn"]);
    let said = || std::fs::read_to_string(path.join("first.log")).unwrap();
    let log = std::fs::File::create(path.join("first.log")).unwrap();
    let mut first = worker_with(path, "1s").stderr(log).spawn().unwrap();
    let pids = || std::fs::read_to_string(path.join("pids.txt")).unwrap();
    until("the run has begun", || pids().ends_with('\n'));
    let pid = pids().trim().to_owned();
    let both = [pid.clone(), first.id().to_string()];
    // Its lease expires, and another worker takes over the run from its journal. A process that is suspended during a
    // write blocks the database for all others, so it is resumed briefly.
    let mut second = worker(path);
    let woken = std::cell::Cell::new(None::<Instant>);
    until("the run is taken over", || {
        if woken.get().is_none_or(|at| at.elapsed() > Duration::from_secs(5)) {
            both.iter().for_each(|process| signal(process, "CONT"));
            std::thread::sleep(Duration::from_millis(30));
            both.iter().for_each(|process| signal(process, "STOP"));
            woken.set(Some(Instant::now()));
        }
        shown_of(path, "r")["starts"] == 2
    });
    std::fs::write(path.join("go"), "").unwrap();
    until("the run has ended", || shown_of(path, "r")["status"] == "completed");
    let entries = shown_of(path, "r")["entries"].clone();
    // The first process wakes up: its writes are rejected, and nothing changes.
    signal(&pid, "CONT");
    signal(&first.id().to_string(), "CONT");
    until("its write is refused", || said().contains("is no longer valid"));
    for one in [&mut first, &mut second] {
        one.kill().unwrap();
        one.wait().unwrap();
    }
    assert_eq!(shown_of(path, "r")["entries"], entries);
    assert_eq!(std::fs::read_to_string(path.join("log.txt")).unwrap(), "end\n", "no effect happens twice");
    assert_eq!(pids().lines().count(), 1);
}

#[test]
#[cfg(unix)]
fn what_a_run_prints_is_shown_when_it_comes_whoever_ends_its_worker() {
    use std::io::{BufRead, BufReader, Read};
    let dir = folder(&[(
        "main.harn",
        "println(\"first\")\nlet r = shell(\"sleep 300\", {timeout: 2s, on_uncertain: \"retry\"})\nprintln(\"second\")\n",
    )]);
    let path = dir.path();
    submit(path, &["--run-id", "r", "main.harn"]);
    let mut first = command(&["worker", "--drain-timeout", "0s"])
        .current_dir(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(first.stdout.take().unwrap());
    let mut line = String::new();
    shown.read_line(&mut line).unwrap();
    assert_eq!(line, "first\n");
    signal(&first.id().to_string(), "TERM");
    let mut rest = String::new();
    shown.read_to_string(&mut rest).unwrap();
    assert_eq!((first.wait().unwrap().code(), rest.as_str()), (Some(143), ""));
    let second = drain(path);
    assert_eq!(second.out, "second\n", "{}", second.shown());
    assert_eq!(shown_of(path, "r")["status"], "completed");
}

#[test]
fn a_run_may_print_much() {
    let dir =
        folder(&[("main.harn", "let line = \"x\".repeat(1000000)\nfor _ in 1 to 70 { println(line) }\n")]);
    let path = dir.path();
    submit(path, &["--run-id", "r", "main.harn"]);
    let ran = drain(path);
    assert_eq!(ran.out.len(), 70 * 1_000_001, "{}", ran.err);
    assert_eq!(shown_of(path, "r")["status"], "completed");
}
