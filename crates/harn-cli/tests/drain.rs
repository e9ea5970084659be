//! Workers that are stopped: runs in progress end or are suspended; none fails, and no effect is repeated.
//!
//! `HARN_KILLS` sets the number of rounds of the randomized test. `make kill` and `HARN_EVERY_CASE` perform 200.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::background::{silent, submit_as, until};
use crate::common::{Chance, command, every_case, folder, harn_in, kills, shown_of, text};

/// Starts a worker with this drain timeout.
fn worker(folder: &Path, limit: &str, environment: &[(&str, &str)]) -> Child {
    let args = ["worker", "--concurrency", "3", "--lease", "1s", "--drain-timeout", limit];
    silent(folder, &args).envs(environment.iter().copied()).spawn().unwrap()
}

fn terminate(worker: &Child) {
    let pid = worker.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
}

/// Waits for a worker. Returns its exit status and the duration.
fn end(mut worker: Child) -> (ExitStatus, Duration) {
    let begun = Instant::now();
    (worker.wait().unwrap(), begun.elapsed())
}

/// Commands of one second each, which must not be repeated.
const COMMANDS: &str = r#"
for i in 1 to 3 {
  let r = exec("sh", "-c", "echo ${i} >> begun.txt; sleep 1; echo ${i} >> done.txt")
  println("part ${i} rc ${r.status}")
}
"#;

#[test]
fn a_run_in_progress_ends_before_its_worker() {
    let dir = folder(&[("main.harn", COMMANDS), ("later.harn", "println(1)")]);
    let path = dir.path();
    submit_as(path, "r", &["main.harn"]);
    let worker = worker(path, "60s", &[]);
    until("the run has begun", || !text(&path.join("begun.txt")).is_empty());
    submit_as(path, "later", &["later.harn"]);
    terminate(&worker);
    assert_eq!(end(worker).0.code(), Some(143));
    assert_eq!(shown_of(path, "r")["status"], "completed");
    assert_eq!(text(&path.join("done.txt")), "1\n2\n3\n");
    // It may have been claimed before the signal arrived.
    assert_ne!(shown_of(path, "later")["status"], "failed");
}

#[test]
fn a_longer_run_is_suspended_between_two_commands() {
    let dir = folder(&[("main.harn", COMMANDS)]);
    let path = dir.path();
    submit_as(path, "r", &["main.harn"]);
    let worker = worker(path, "20s", &[]);
    until("the run has begun", || !text(&path.join("begun.txt")).is_empty());
    // Half of a zero timeout: the run is drained immediately.
    let second =
        command(&["worker", "--drain-timeout", "0s"]).current_dir(path).stdin(Stdio::null()).spawn().unwrap();
    terminate(&second);
    end(second);
    let pid = runs_below(worker.id()).pop().expect("a run");
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    terminate(&worker);
    assert_eq!(end(worker).0.code(), Some(143));
    let run = shown_of(path, "r");
    assert_eq!(run["status"], "suspended", "{run}");
    assert_eq!((&run["note"], &run["pending"]), (&"its worker was stopped".into(), &json!([])));
    let begun = text(&path.join("begun.txt"));
    assert_eq!(begun, text(&path.join("done.txt")), "no command is interrupted");
    assert!(begun.len() < 6, "{begun}");
    let drained = harn_in(path, &["worker", "--drain"]);
    assert_eq!(shown_of(path, "r")["status"], "completed", "{}", drained.shown());
    assert_eq!(text(&path.join("done.txt")), "1\n2\n3\n");
}

/// Returns the process ids of a worker's runs.
fn runs_below(worker: u32) -> Vec<String> {
    let list =
        std::process::Command::new("ps").args(["-o", "pid=,args=", "--ppid", &worker.to_string()]).output();
    let list = String::from_utf8(list.unwrap().stdout).unwrap();
    let of_run =
        |line: &str| line.contains(" resume ").then(|| line.split_whitespace().next().unwrap().to_owned());
    list.lines().filter_map(of_run).collect()
}

#[test]
fn a_second_signal_interrupts_runs_and_none_fails() {
    let program = "append_file(\"begun.txt\", \"x\")\nexec(\"sleep\", \"100\")\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    submit_as(path, "r", &["main.harn"]);
    let worker = worker(path, "60s", &[]);
    until("the run has begun", || !text(&path.join("begun.txt")).is_empty());
    std::thread::sleep(Duration::from_millis(300));
    terminate(&worker);
    std::thread::sleep(Duration::from_millis(300));
    terminate(&worker);
    let (status, took) = end(worker);
    assert!(status.code() == Some(143) && took < Duration::from_secs(10), "{status} after {took:?}");
    assert_eq!(shown_of(path, "r")["status"], "abandoned");
    let ran = harn_in(path, &["worker", "--drain"]);
    let run = shown_of(path, "r");
    assert_eq!(
        (&run["status"], &run["pending"][0]["kind"]),
        (&"suspended".into(), &"in_doubt".into()),
        "{}",
        ran.shown()
    );
    assert_eq!(text(&path.join("begun.txt")), "x");
}

#[test]
fn a_stopped_worker_does_not_keep_runs_that_wait() {
    let dir = folder(&[("main.harn", "append_file(\"begun.txt\", \"x\")\nsleep(19s)\nprintln(\"end\")\n")]);
    let path = dir.path();
    submit_as(path, "r", &["main.harn"]);
    let worker = worker(path, "1s", &[]);
    until("the run has begun", || !text(&path.join("begun.txt")).is_empty());
    terminate(&worker);
    let (status, took) = end(worker);
    assert!(status.code() == Some(143) && took < Duration::from_secs(8), "{status} after {took:?}");
    assert_eq!(shown_of(path, "r")["status"], "suspended");
}

/// Number of requests by path, or by prompt for model calls.
type Seen = Arc<Mutex<BTreeMap<String, u32>>>;

/// Starts a server that takes several milliseconds per request.
fn server(seen: &Seen) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let seen = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let seen = seen.clone();
            std::thread::spawn(move || serve(&stream, &seen));
        }
    });
    address
}

fn serve(mut stream: &TcpStream, seen: &Seen) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let path = line.split(' ').nth(1)?.to_owned();
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok().filter(|read| *read > 0)?;
            if header == "\r\n" {
                break;
            }
            if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let prompt =
            body["messages"].as_array().and_then(|all| all.last()?["content"].as_str().map(str::to_owned));
        *seen.lock().unwrap().entry(prompt.unwrap_or_else(|| path.clone())).or_default() += 1;
        if body["stream"] == true {
            stream_reply(stream)?;
            continue;
        }
        std::thread::sleep(Duration::from_millis(40));
        let message = json!({"role": "assistant", "content": "good"});
        let reply = json!({"id": "x", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
        let reply = reply.to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            reply.len()
        );
        stream.write_all((head + &reply).as_bytes()).ok()?;
    }
}

/// Streams the reply of a model in three events, several milliseconds apart.
fn stream_reply(mut stream: &TcpStream) -> Option<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).ok()?;
    for (text, end) in [("go", None), ("o", None), ("d", Some("stop"))] {
        std::thread::sleep(Duration::from_millis(15));
        let choice =
            json!({"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": end});
        let event = format!("data: {}\n\n", json!({"id": "x", "model": "m", "choices": [choice]}));
        stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).ok()?;
    }
    let done = "data: [DONE]\n\n";
    stream.write_all(format!("{:x}\r\n{done}\r\n0\r\n\r\n", done.len()).as_bytes()).ok()
}

/// A POST request, a command, a model call and a streamed model call, four times. None of them may be repeated.
const WORK: &str = r#"
let id = argv[0]
for i in 1 to 4 {
  http_post("${env("BASE")}/${id}/${i}", {a: i}, {})
  exec("sh", "-c", "sleep 0.03; echo ${i} >> log-${id}.txt")
  llm_call("${id} ${i}", nil, {provider: "local", model: "m", stream: false})
  let streamed = llm_call("${id} ${i} streamed", nil, {provider: "local", model: "m", stream: true})
  assert(streamed.text == "good", streamed.text)
  sleep(5)
}
println("end")
"#;

#[test]
fn workers_that_are_told_to_stop_at_random_instants_fail_nothing_and_repeat_nothing() {
    let dir = folder(&[("main.harn", WORK)]);
    let path = dir.path();
    let seen = Seen::default();
    let address = server(&seen);
    let environment = [("BASE", &*address), ("LOCAL_LLM_BASE_URL", &*address), ("LOCAL_LLM_MODEL", "m")];
    let (mut chance, mut submitted) = (Chance(49), 0);
    let mut open = Vec::new();
    let stops = if every_case() { kills().max(200) } else { kills() };
    for _ in 0..stops {
        while open.len() < 4 {
            submit_as(path, &format!("r{submitted}"), &["main.harn", "--", &submitted.to_string()]);
            open.push(submitted);
            submitted += 1;
        }
        let worker = worker(path, "10s", &environment);
        std::thread::sleep(Duration::from_millis(chance.below(1500)));
        // Half of the runs receive the signal directly; otherwise all of them would end within the worker's timeout.
        for pid in runs_below(worker.id()) {
            if chance.below(2) == 0 {
                let _ =
                    std::process::Command::new("kill").args(["-TERM", &pid]).stderr(Stdio::null()).status();
            }
        }
        terminate(&worker);
        assert!(matches!(end(worker).0.code(), Some(143) | None));
        open.retain(|id| {
            let run = shown_of(path, &format!("r{id}"));
            let status = run["status"].as_str().unwrap().to_owned();
            assert!(["queued", "suspended", "completed", "abandoned"].contains(&&*status), "{run}");
            assert_eq!(run["pending"], json!([]), "{run}");
            status != "completed"
        });
    }
    let mut command = command(&["worker", "--drain"]);
    command.current_dir(path).envs(environment);
    let ran = crate::common::finish(command, b"");
    let mut suspended = 0;
    for id in 0..submitted {
        let run = shown_of(path, &format!("r{id}"));
        assert_eq!(run["status"], "completed", "{run}\n{}", ran.shown());
        assert_eq!(text(&path.join(format!("log-{id}.txt"))), "1\n2\n3\n4\n");
        suspended += run["starts"].as_u64().unwrap() - 1;
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), submitted * 12);
    assert!(seen.values().all(|count| *count == 1), "{seen:?}");
    println!("{submitted} runs, {stops} workers stopped, {suspended} times a run was suspended and resumed");
}
