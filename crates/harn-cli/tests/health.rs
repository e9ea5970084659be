//! `harn worker list`, `--health`, `--log-format json`, and the store in `harn doctor`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::background::{found, submit_as, until};
use crate::common::{command, finish, folder, harn_in, shown_of};

fn data(folder: &Path, args: &[&str]) -> Value {
    let ran = harn_in(folder, &[args, &["--json"]].concat());
    serde_json::from_str::<Value>(&ran.out).unwrap_or_else(|_| panic!("{}", ran.shown()))["data"].clone()
}

fn workers(folder: &Path) -> Vec<Value> {
    data(folder, &["worker", "list"])["workers"].as_array().unwrap().clone()
}

/// A server or worker with a health listener, and the lines of its standard error.
struct Served {
    child: Child,
    address: String,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    fn start(folder: &Path, args: &[&str]) -> Served {
        let mut command = command(&[args, &["--health", "127.0.0.1:0", "--log-format", "json"]].concat());
        command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let err = BufReader::new(child.stderr.take().unwrap());
        let (send, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || err.lines().map_while(Result::ok).all(|line| send.send(line).is_ok()));
        let first = lines.recv_timeout(Duration::from_secs(60)).expect("a line");
        let first: Value = serde_json::from_str(&first).unwrap_or_else(|_| panic!("{first}"));
        let message = first["message"].as_str().unwrap();
        let address = message.strip_prefix("health: http://").and_then(|rest| rest.strip_suffix("/healthz"));
        Served { child, address: address.expect("an address").to_owned(), lines }
    }

    /// Requests a path. Returns the status and the body.
    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Returns the value of a sample.
    fn sample(&self, name: &str) -> Option<f64> {
        let (_, text) = self.get("/metrics");
        let line = text.lines().find(|line| line.split_once(' ').is_some_and(|(known, _)| known == name));
        line.map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
    }

    fn until_ready(&self) {
        until("it is ready", || self.get("/readyz").0 == 200);
    }

    /// Returns the lines of the log up to one that contains `part`, as JSON.
    fn log_until(&self, part: &str) -> Vec<Value> {
        let mut found = Vec::new();
        loop {
            let line =
                self.lines.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{found:?}"));
            found.push(serde_json::from_str::<Value>(&line).unwrap_or_else(|_| panic!("no JSON: {line}")));
            if line.contains(part) {
                return found;
            }
        }
    }
}

/// Waits for the file `go`.
const WAITS: &str = "while !file_exists(\"go\") { sleep(20ms) }\nprintln(\"done\")\n";

#[test]
fn a_worker_tells_what_it_works_on() {
    let dir = folder(&[("main.harn", WAITS), ("bad.harn", "eprintln(\"oh\")\nthrow \"no\"\n")]);
    let path = dir.path();
    assert_eq!(harn_in(path, &["worker", "list"]).out, "No workers.\n");
    submit_as(path, "r", &["main.harn"]);
    submit_as(path, "bad", &["bad.harn"]);
    let worker = Served::start(path, &["worker", "--concurrency", "3"]);
    worker.until_ready();
    assert_eq!(worker.get("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(worker.get("/other").0, 404);
    let known = found("the run is listed", || {
        workers(path).into_iter().find(|known| known["runs"][0]["id"] == "r" && known["ended"] == 1)
    });
    assert_eq!((&known["status"], &known["pid"]), (&"working".into(), &worker.child.id().into()), "{known}");
    assert_eq!(known["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&known["concurrency"], &known["runs"][0]["program"]), (&3.into(), &"main.harn".into()));
    assert!(known["heartbeat_age_ms"].as_i64().unwrap() < 15_000, "{known}");
    let listed = harn_in(path, &["worker", "list"]).out;
    assert!(listed.contains("working") && listed.contains("1 of 3: r"), "{listed}");
    for (name, value) in [
        ("harn_worker_runs_in_progress", 1.0),
        ("harn_worker_concurrency", 3.0),
        ("harn_store_up", 1.0),
        ("harn_store_runs{status=\"running\"}", 1.0),
        ("harn_store_runs{status=\"failed\"}", 1.0),
        ("harn_queue_depth", 0.0),
        ("harn_worker_runs_total{status=\"failed\"}", 1.0),
        ("harn_run_failures_total{category=\"generic\"}", 1.0),
        ("harn_run_duration_seconds_count{status=\"failed\"}", 1.0),
    ] {
        assert_eq!(worker.sample(name), Some(value), "{name}\n{}", worker.get("/metrics").1);
    }
    let log = worker.log_until("run bad: failed");
    let oh = log.iter().find(|line| line["message"] == "oh").unwrap_or_else(|| panic!("{log:?}"));
    assert_eq!((&oh["run"], &oh["stream"], &oh["level"]), (&"bad".into(), &"stderr".into(), &"info".into()));
    let failed = log.last().unwrap();
    assert_eq!((&failed["run"], &failed["level"]), (&"bad".into(), &"error".into()));
    assert!(failed["time"].as_str().unwrap().ends_with('Z'), "{failed}");
    let doctor = harn_in(path, &["doctor", "--no-network"]).out;
    assert!(doctor.contains("schema version 4") && doctor.contains("1 running, 1 failed"), "{doctor}");
    assert!(doctor.contains("1 running: "), "{doctor}");
    // A dead worker is detected by its missing heartbeats; the next worker takes its number.
    std::fs::write(path.join("go"), "").unwrap();
    until("the run has ended", || shown_of(path, "r")["status"] == "completed");
    found("it is counted", || worker.sample("harn_run_duration_seconds_count{status=\"completed\"}"));
    drop(worker);
    let dead = found("it is dead", || workers(path).into_iter().find(|known| known["status"] == "dead"));
    let doctor = harn_in(path, &["doctor", "--no-network"]).out;
    let name = dead["name"].as_str().unwrap();
    assert!(doctor.contains(&format!("{name} ended without a word")), "{doctor}");
    assert_eq!(harn_in(path, &["worker", "--drain"]).code, 0);
    let after = workers(path);
    assert_eq!((after.len(), &after[0]["name"], &after[0]["status"]), (1, &dead["name"], &"stopped".into()));
}

#[test]
fn models_of_a_run_are_counted() {
    let program = "let a = llm_call(\"hi\")\nlet b = llm_call(\"ho\")\nprintln(\"ok\")\n";
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    let mut submit = command(&["submit", "--run-id", "r", "main.harn"]);
    submit.current_dir(path).env("HARN_LLM_PROVIDER", "mock");
    assert_eq!(finish(submit, b"").code, 0);
    let mut worker = command(&["worker", "--drain"]);
    worker.current_dir(path).env("HARN_LLM_PROVIDER", "mock");
    assert_eq!(finish(worker, b"").code, 0);
    let run = shown_of(path, "r");
    assert_eq!((&run["status"], &run["usage"]["calls"]), (&"completed".into(), &2.into()), "{run}");
    assert!(run["usage"]["output_tokens"].as_i64().unwrap() > 0, "{run}");
    let shown = harn_in(path, &["runs", "show", "r"]).out;
    assert!(shown.contains("models    2 calls, "), "{shown}");
}

#[test]
fn a_server_counts_its_requests() {
    let dir = folder(&[("main.harn", "pub fn twice(n: int) { eprintln(\"n ${n}\")\n return n * 2 }\n")]);
    let mut server = Served::start(dir.path(), &["serve", "mcp", "main.harn"]);
    server.until_ready();
    let mut input = server.child.stdin.take().unwrap();
    let mut output = BufReader::new(server.child.stdout.take().unwrap());
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let call =
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"twice","arguments":{"n":4}}}"#;
    let wrong = r#"{"jsonrpc":"2.0","id":3,"method":"no/such","params":{}}"#;
    for message in [hello, call, wrong] {
        writeln!(input, "{message}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
    }
    let log = server.log_until("other: error");
    assert!(log.iter().any(|line| line["message"] == "n 4" && line["stream"] == "stderr"), "{log:?}");
    for (name, value) in [
        ("harn_requests_total{method=\"tools/call\",outcome=\"ok\"}", 1.0),
        ("harn_requests_total{method=\"other\",outcome=\"error\"}", 1.0),
        ("harn_request_duration_seconds_count{method=\"tools/call\"}", 1.0),
        ("harn_requests_in_progress", 0.0),
        ("harn_llm_calls_total", 0.0),
    ] {
        assert_eq!(server.sample(name), Some(value), "{name}\n{}", server.get("/metrics").1);
    }
}

#[test]
fn an_address_that_cannot_be_used_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = folder(&[("main.harn", "pub fn f() { return 1 }\n")]);
    for args in [&["worker", "--drain"][..], &["serve", "mcp", "main.harn"], &["serve", "acp", "main.harn"]] {
        let ran = harn_in(dir.path(), &[args, &["--health", &address]].concat());
        assert!(ran.code == 1 && ran.err.contains("--health: cannot listen on"), "{}", ran.shown());
        let ran = harn_in(dir.path(), &[args, &["--health", "9090"]].concat());
        assert!(ran.code == 2 && ran.err.contains("expected IP:PORT"), "{}", ran.shown());
    }
}

#[test]
fn the_doctor_finds_stuck_runs() {
    let dir = folder(&[("main.harn", "shell(\"kill -9 $PPID\", {idempotent: true})\n"), ("a.harn", "")]);
    let path = dir.path();
    submit_as(path, "stuck", &["main.harn"]);
    assert_eq!(harn_in(path, &["worker", "--drain"]).code, 0);
    assert_eq!(harn_in(path, &["submit", "--at", "2020-01-01T00:00", "--run-id", "old", "a.harn"]).code, 0);
    let ran = harn_in(path, &["doctor", "--no-network"]);
    assert!(ran.out.contains("run stuck waits for `harn resume stuck`"), "{}", ran.shown());
    assert!(ran.out.contains("no worker is running: start `harn worker`"), "{}", ran.shown());
}

#[cfg(feature = "postgres")]
#[test]
fn workers_on_a_database_are_listed() {
    let Some(url) = crate::server::database() else { return };
    let dir = folder(&[("harn.toml", &format!("[store]\nurl = \"{url}\"\n")), ("main.harn", "println(1)\n")]);
    let path = dir.path();
    submit_as(path, "r", &["main.harn"]);
    let worker = Served::start(path, &["worker"]);
    worker.until_ready();
    let known = found("it is listed", || workers(path).into_iter().find(|known| known["ended"] == 1));
    assert_eq!(known["status"], "working", "{known}");
    assert_eq!(worker.sample("harn_store_runs{status=\"completed\"}"), Some(1.0));
    assert!(worker.sample("harn_store_size_bytes").unwrap() > 0.0);
    let doctor = harn_in(path, &["doctor"]).out;
    assert!(doctor.contains("schema version 3, ") && doctor.contains("1 completed"), "{doctor}");
}
