//! Programs that read streamed replies from a server with random timing are replayed, and resumed after kills at random
//! times. No effect is repeated.
//!
//! `HARN_KILLS` sets the number of kills; `make kill` performs 200.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Chance, Ran, command, folder, harn_in, kills, life, text};
use harn_strict_servers::{Request, violation};

/// Number of requests by path.
type Asked = Arc<Mutex<BTreeMap<String, u32>>>;

/// A server that sends head and body of a response separately, in pieces of random length with random pauses.
struct Server {
    address: String,
    asked: Asked,
}

impl Server {
    /// Starts a server whose pauses last up to `pause_us` microseconds.
    fn start(seed: u64, pause_us: u64) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Asked::default();
        let own = asked.clone();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let (asked, chance) =
                    (own.clone(), Chance(seed ^ (number as u64 + 1).wrapping_mul(0x9E37_79B9)));
                std::thread::spawn(move || serve(&stream, &asked, chance, pause_us));
            }
        });
        Server { address, asked }
    }

    fn count(&self, path: &str) -> u32 {
        self.asked.lock().unwrap().get(path).copied().unwrap_or(0)
    }

    /// Returns the number of requests for a slow reply.
    fn slow(&self) -> u32 {
        self.asked.lock().unwrap().iter().filter(|(path, _)| path.contains("slow")).map(|(_, n)| n).sum()
    }
}

fn serve(stream: &TcpStream, asked: &Asked, mut chance: Chance, pause_us: u64) {
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    while let Ok(request) = Request::read(&mut reader) {
        assert!(violation(&request).is_none(), "{:?}", violation(&request));
        let path = request.target().to_owned();
        let count = {
            let mut asked = asked.lock().unwrap();
            let count = asked.entry(path.clone()).or_default();
            *count += 1;
            *count
        };
        let is_model = path.ends_with("/v1/chat/completions");
        let (kind, content) = match (is_model, request.body["stream"] == true) {
            (true, true) => ("text/event-stream", events()),
            (true, false) => ("application/json", completion()),
            _ => ("text/plain", format!("reply of {path}: {}", "0123456789".repeat(20))),
        };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n");
        if send(stream, head.as_bytes(), &mut chance, pause_us).is_none() {
            return;
        }
        // The client of the first request is killed during this time.
        if path.contains("slow") && count == 1 {
            std::thread::sleep(Duration::from_secs(20));
        }
        let mut rest = content.as_bytes();
        while !rest.is_empty() {
            let length = (1 + chance.below(120) as usize).min(rest.len());
            let (piece, behind) = rest.split_at(length);
            let chunk = [format!("{length:x}\r\n").as_bytes(), piece, b"\r\n"].concat();
            if send(stream, &chunk, &mut chance, pause_us).is_none() {
                return;
            }
            rest = behind;
        }
        if send(stream, b"0\r\n\r\n", &mut chance, pause_us).is_none() {
            return;
        }
    }
}

fn send(mut stream: &TcpStream, bytes: &[u8], chance: &mut Chance, pause_us: u64) -> Option<()> {
    stream.write_all(bytes).ok()?;
    let pause = Duration::from_micros(chance.below(pause_us));
    if chance.below(2) == 0 {
        std::thread::sleep(pause);
    }
    Some(())
}

/// The words of each streamed reply.
const WORDS: [&str; 8] = ["one ", "two ", "three ", "four ", "five ", "six ", "seven ", "eight"];

fn events() -> String {
    let chunk = |choice: Value| {
        format!(
            "data: {}\n\n",
            json!({"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})
        )
    };
    let mut all: Vec<String> =
        WORDS.iter().map(|word| chunk(json!({"index": 0, "delta": {"content": word}}))).collect();
    all.push(chunk(json!({"index": 0, "delta": {}, "finish_reason": "stop"})));
    all.push("data: [DONE]\n\n".to_owned());
    all.concat()
}

fn completion() -> String {
    let message = json!({"role": "assistant", "content": WORDS.concat()});
    json!({"id": "x", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
        .to_string()
}

/// Runs a program in the directory with a journal.
fn run(folder: &Path, server: &Server, args: &[&str]) -> Ran {
    let mut command = command(args);
    command.current_dir(folder).envs(surroundings(server));
    crate::common::finish(command, b"")
}

fn surroundings(server: &Server) -> [(&'static str, String); 3] {
    [
        ("BASE", server.address.clone()),
        ("LOCAL_LLM_BASE_URL", server.address.clone()),
        ("LOCAL_LLM_MODEL", "m".to_owned()),
    ]
}

/// Starts the run `r` of `main.harn`, and kills it after `life`.
fn kill(folder: &Path, server: &Server, args: &[&str], life: Duration) -> String {
    let mut child = command(args)
        .current_dir(folder)
        .envs(surroundings(server))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("harn starts");
    let begun = Instant::now();
    while begun.elapsed() < life && child.try_wait().expect("it is ours").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const STREAM: &str = r#"
let base = env("BASE")
println(http_get("${base}/first").status)
var said = ""
for piece in llm_stream("Count.", nil, {provider: "local", model: "m"}) {
  said = said + piece
  println("piece of ${said.len()}")
}
println(said)
"#;

#[test]
fn a_streamed_reply_is_replayed_whatever_its_timing() {
    for round in 0..kills().max(20) {
        let server = Server::start(round + 1, [50, 300, 2000][round as usize % 3]);
        let dir = folder(&[("main.harn", STREAM)]);
        let ran = run(dir.path(), &server, &["run", "--durable", "--run-id", "r", "main.harn"]);
        assert_eq!(ran.code, 0, "round {round}: {}", ran.shown());
        assert!(ran.out.ends_with(&format!("{}\n", WORDS.concat())), "{}", ran.shown());
        let replayed = harn_in(dir.path(), &["replay", "r"]);
        assert_eq!((replayed.code, &replayed.out), (0, &ran.out), "round {round}: {}", replayed.shown());
        assert_eq!(server.count("/first"), 1, "a replay asks nobody");
    }
}

/// Returns every conformance program that reads a stream, with a model server instead of the mock, preceded by another
/// request.
fn streaming_programs() -> Vec<(String, String)> {
    const STREAMS: [&str; 8] = [
        "llm_stream",
        "on_delta",
        "http_stream",
        "run_specialist",
        "sse_",
        ".partials(",
        "answer_partial",
        "run_router",
    ];
    let root = crate::common::repository().join("conformance");
    let (mut folders, mut found) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the suite is there").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|end| end != "harn") || path.with_extension("answers").exists() {
                continue;
            }
            let program = text(&path);
            let has_files = program
                .lines()
                .any(|line| line.starts_with("import \"./") || line.starts_with("import \"../"));
            if has_files || !STREAMS.iter().any(|word| program.contains(word)) {
                continue;
            }
            let program = program.replace("provider: \"mock\"", "provider: \"local\", model: \"m\"");
            let name = path.strip_prefix(&root).expect("it is below").display().to_string();
            found.push((name, format!("http_get(\"${{env(\"BASE\")}}/first\")\n{program}")));
        }
    }
    found.sort();
    assert!(found.len() > 60, "{} programs read streams", found.len());
    found
}

/// Runs the program of a directory as the run `r`. Returns `None` if it takes longer than 30 seconds.
fn run_to_end(path: &Path, server: &Server, args: &[&str]) -> Option<Ran> {
    let mut child = command(args)
        .current_dir(path)
        .envs(surroundings(server))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(path.join("out")).unwrap())
        .stderr(std::fs::File::create(path.join("err")).unwrap())
        .spawn()
        .expect("harn starts");
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().expect("it is ours") {
            Some(status) => break status,
            None if begun.elapsed() > Duration::from_secs(30) => {
                child.kill().expect("it is ours");
                child.wait().expect("it ends");
                return None;
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    Some(Ran {
        code: status.code().unwrap_or(-1),
        out: text(&path.join("out")),
        err: text(&path.join("err")),
    })
}

/// Checks that a replay of the run `r` follows its journal to the end.
fn assert_replayed(path: &Path, name: &str, ran: &Ran, out: Option<&str>) {
    let replayed = harn_in(path, &["replay", "r"]);
    assert!(
        !replayed.err.contains("differs from its journal") && !replayed.err.contains("the journal ends here"),
        "{name}: {}\nrecorded {}",
        replayed.shown(),
        ran.shown()
    );
    assert_eq!(replayed.code, ran.code, "{name}: {}\nrecorded {}", replayed.shown(), ran.shown());
    if let Some(out) = out {
        assert_eq!(replayed.out, out, "{name}: {}", replayed.shown());
    }
}

#[test]
fn every_conformance_program_that_streams_is_replayed_whatever_its_timing() {
    let programs = streaming_programs();
    let (next, replayed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((name, program)) = programs.get(number) else { return };
                    let server = Server::start(number as u64 + 1, [50, 300, 2000][number % 3]);
                    let dir = folder(&[("main.harn", program)]);
                    let args = ["run", "--durable", "--run-id", "r", "main.harn"];
                    let Some(ran) = run_to_end(dir.path(), &server, &args) else { continue };
                    // A run that waits for a human does not end, and an invalid program creates no run.
                    if ran.code != 75 && ran.err.contains("run r started") {
                        assert_replayed(dir.path(), name, &ran, Some(&ran.out));
                        replayed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let replayed = replayed.into_inner();
    assert!(replayed * 4 > programs.len() * 3, "{replayed} of {} programs were replayed", programs.len());
}

#[test]
fn every_conformance_program_that_streams_can_be_killed_and_resumed() {
    let programs = streaming_programs();
    let (mut chance, mut left, mut runs) = (Chance(11), kills(), 0);
    while left > 0 {
        runs += 1;
        let (name, program) = &programs[chance.below(programs.len() as u64) as usize];
        let server = Server::start(runs, [200, 1500, 4000][runs as usize % 3]);
        let dir = folder(&[("main.harn", program)]);
        let path = dir.path();
        let mut args = vec!["run", "--durable", "--run-id", "r", "main.harn"];
        let ended = loop {
            if left > 0 {
                left -= 1;
                kill(path, &server, &args, life(&mut chance, 15, 120));
            }
            let known = harn_in(path, &["runs", "show", "r", "--json"]);
            if known.code != 0 {
                // It was killed before the run was created, or the program is invalid with another provider.
                if left == 0 {
                    break None;
                }
                continue;
            }
            args = vec!["resume", "r", "--retry-in-doubt"];
            let status: Value = serde_json::from_str(&known.out).unwrap();
            match status["data"]["status"].as_str() {
                Some("completed" | "failed") => {
                    let code = status["data"]["exit_code"].as_i64().unwrap_or(-1);
                    let code = i32::try_from(code).unwrap_or(-1);
                    break Some(Ran { code, out: String::new(), err: String::new() });
                }
                _ if left == 0 || chance.below(4) == 0 => break run_to_end(path, &server, &args),
                _ => {}
            }
        };
        if let Some(ended) = ended.filter(|ended| ended.code != 75) {
            assert!(!ended.err.contains("something else than its journal"), "{name}: {}", ended.shown());
            assert_replayed(path, name, &ended, None);
        }
    }
    println!("{runs} runs");
}

const KILLED: &str = r#"
let base = env("BASE")
println(http_get("${base}/first").body.len())
var said = ""
for piece in llm_stream("Count.", nil, {provider: "local", model: "m"}) {
  said = said + piece
  print("[${piece}]")
}
println(said)
append_file("paid.txt", "x\n")
println(try { http_post("${base}/pay", {n: 1}, {}).body.len() } catch e { error_category(e) })
println(http_put("${base}/put", "x", {}).body.len())
println(http_download("${base}/file", "file.txt").status)
println(read_file("file.txt").len())
println(parallel each [1, 2, 3] { n -> http_get("${base}/get${n}").body.len() })
println(llm_call("Count.", nil, {provider: "local", model: "m"}).text)
append_file("paid.txt", "y\n")
println("end")
"#;

#[test]
fn an_exchange_is_repeated_at_whatever_byte_a_kill_cut_it() {
    let (mut chance, mut left, mut runs) = (Chance(5), kills(), 0);
    while left > 0 {
        runs += 1;
        let server = Server::start(runs, [200, 1500, 4000][runs as usize % 3]);
        let dir = folder(&[("main.harn", KILLED)]);
        let path = dir.path();
        let mut args = vec!["run", "--durable", "--run-id", "r", "main.harn"];
        loop {
            let life = life(&mut chance, 15, 120);
            if left > 0 {
                left -= 1;
                kill(path, &server, &args, life);
            }
            let known = harn_in(path, &["runs", "show", "r", "--json"]);
            // A process that was killed early has created no run.
            if known.code == 0 {
                args = vec!["resume", "r"];
                let status: Value = serde_json::from_str(&known.out).unwrap();
                assert!(status["data"]["status"] != "failed", "run {runs}: {}", known.out);
                if status["data"]["status"] == "completed" {
                    break;
                }
            }
            if left == 0 {
                let ended = run(path, &server, &args);
                assert_eq!(ended.code, 0, "run {runs}: {}", ended.shown());
                break;
            }
        }
        let replayed = harn_in(path, &["replay", "r"]);
        let length = "reply of /pay: ".len() + 200;
        let words: String = WORDS.iter().map(|word| format!("[{word}]")).collect();
        let wanted = |paid: &str| {
            format!(
                "{}\n{words}{}\n{paid}\n{length}\n200\n{}\n[{}, {}, {}]\n{}\nend\n",
                length + 2,
                WORDS.concat(),
                length + 1,
                length + 1,
                length + 1,
                length + 1,
                WORDS.concat()
            )
        };
        // The server decides how the reply is split.
        let plain = |text: &str| text.replace("][", "");
        let found = [length.to_string(), "in_doubt".to_owned()].map(|paid| plain(&wanted(&paid)));
        assert!(
            found.contains(&plain(&replayed.out)),
            "run {runs}: {}\nexpected {}",
            replayed.shown(),
            found[0]
        );
        assert_eq!(text(&path.join("paid.txt")), "x\ny\n");
        assert!(server.count("/pay") <= 1, "the payment was sent {} times", server.count("/pay"));
    }
    println!("{runs} runs");
}

/// Kills the run `r` after half of a slow reply.
fn kill_in_reply(path: &Path, server: &Server) {
    let mut child = command(&["run", "--durable", "--run-id", "r", "main.harn"])
        .current_dir(path)
        .envs(surroundings(server))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("harn starts");
    let begun = Instant::now();
    while server.slow() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is asked for");
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(100));
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
}

fn status(path: &Path) -> Value {
    crate::common::shown(path)["status"].clone()
}

/// Arguments of `harn answer` and of `harn resume`, then the exit code, the output and the number of requests.
type Way<'a> = (&'a [&'a str], &'a [&'a str], i32, &'a str, u32);

const SLOW: &str = r#"
println("before")
try { println(http_post("${env("BASE")}/slow", {n: 1}, {}).body) } finally { append_file("cleanup.txt", "x") }
append_file("after.txt", "x")
println("after")
"#;

#[test]
fn an_effect_in_doubt_that_nothing_handles_suspends_the_run() {
    let body = format!("reply of /slow: {}\n", "0123456789".repeat(20));
    let ways: [Way<'_>; 6] = [
        (&[], &["--retry-in-doubt"], 0, &body, 2),
        (&[], &["--skip-in-doubt", "{\"status\": 201, \"body\": \"given\"}"], 0, "given\n", 1),
        (&[], &["--skip-in-doubt", "given"], 0, "given\n", 1),
        (&["--approve"], &[], 0, &body, 2),
        (&["given"], &[], 0, "given\n", 1),
        (&["--reject"], &[], 1, "", 1),
    ];
    for (answer, flags, code, printed, times) in ways {
        let server = Server::start(3, 100);
        let dir = folder(&[("main.harn", SLOW)]);
        let path = dir.path();
        kill_in_reply(path, &server);
        for _ in 0..2 {
            let resumed = run(path, &server, &["resume", "r"]);
            assert_eq!(resumed.code, 75, "{}", resumed.shown());
            assert!(resumed.err.contains("it is unknown whether it happened"), "{}", resumed.shown());
            assert_eq!(status(path), "suspended");
            assert_eq!(text(&path.join("cleanup.txt")), "", "no cleanup runs");
        }
        let request = crate::common::shown(path)["pending"][0]["request_id"].as_str().unwrap().to_owned();
        if !answer.is_empty() {
            let answered = harn_in(path, &[&["answer", "r", &request], answer].concat());
            assert_eq!(answered.code, 0, "{}", answered.shown());
        }
        let ended = run(path, &server, &[&["resume", "r"], flags].concat());
        assert_eq!(ended.code, code, "{answer:?} {flags:?}: {}", ended.shown());
        let after = if code == 0 { "after\n" } else { "" };
        assert_eq!(ended.out, format!("{printed}{after}"), "{answer:?} {flags:?}: {}", ended.shown());
        assert_eq!(server.count("/slow"), times, "{answer:?} {flags:?}");
        assert_eq!(text(&path.join("cleanup.txt")), "x");
        assert_eq!(text(&path.join("after.txt")), if code == 0 { "x" } else { "" });
        let replayed = harn_in(path, &["replay", "r"]);
        assert_eq!((replayed.code, replayed.out), (code, format!("before\n{}", ended.out)));
    }
}

#[test]
fn a_get_that_a_kill_cut_is_repeated_and_a_handled_doubt_is_the_programs_own() {
    let programs = [
        ("println(http_get(\"${env(\"BASE\")}/slow\").body.len())", "216\n", 2),
        ("println(http_post(\"${env(\"BASE\")}/slow\", {}, {idempotent: true}).body.len())", "216\n", 2),
        (
            "println(try { http_post(\"${env(\"BASE\")}/slow\", {}, {}).body.len() } catch e { error_category(e) })",
            "in_doubt\n",
            1,
        ),
        (
            "let r = parallel settle [1] { n -> http_post(\"${env(\"BASE\")}/slow\", {}, {}).body.len() }\nprintln(r.failed)",
            "1\n",
            1,
        ),
    ];
    for (program, printed, times) in programs {
        let server = Server::start(4, 100);
        let dir = folder(&[("main.harn", program)]);
        let path = dir.path();
        kill_in_reply(path, &server);
        let ended = run(path, &server, &["resume", "r"]);
        assert_eq!((ended.code, ended.out.as_str()), (0, printed), "{program}: {}", ended.shown());
        assert_eq!(server.count("/slow"), times, "{program}");
        assert_eq!(harn_in(path, &["replay", "r"]).out, printed);
    }
}

/// When a run is resumed, its exchange restarts, and so does the time limit of the exchange.
#[test]
fn limits_of_an_exchange_do_not_run_while_a_run_is_stopped() {
    const LIMIT: u64 = 4;
    let model = format!(
        "{{provider: \"local\", model: \"m\", timeout: {LIMIT}, idle_timeout: {LIMIT}, llm_retries: 0}}"
    );
    let programs = [
        format!("for piece in llm_stream(\"Count.\", nil, {model}) {{ print(piece) }}\nprintln()"),
        format!("println(llm_call(\"Count.\", nil, {model}).text)"),
    ];
    let started = programs.map(|program| {
        let server = Server::start(8, 100);
        let slow = Server { address: format!("{}/slow", server.address), asked: server.asked };
        let dir = folder(&[("main.harn", &program)]);
        kill_in_reply(dir.path(), &slow);
        (program, dir, slow)
    });
    std::thread::sleep(Duration::from_secs(LIMIT));
    for (program, dir, server) in started {
        let ended = run(dir.path(), &server, &["resume", "r"]);
        assert_eq!((ended.code, ended.out), (0, format!("{}\n", WORDS.concat())), "{program}: {}", ended.err);
        assert_eq!(server.slow(), 2, "{program}");
    }
}

#[test]
fn a_worker_that_is_killed_inside_an_effect_loses_nothing() {
    let server = Server::start(6, 100);
    let dir = folder(&[("main.harn", SLOW)]);
    let path = dir.path();
    let submitted = run(path, &server, &["submit", "--run-id", "r", "main.harn"]);
    assert_eq!(submitted.code, 0, "{}", submitted.shown());
    let mut worker = command(&["worker", "--lease", "1s"])
        .current_dir(path)
        .envs(surroundings(&server))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("harn starts");
    let begun = Instant::now();
    while server.slow() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is asked for");
        std::thread::sleep(Duration::from_millis(2));
    }
    let children =
        std::process::Command::new("pgrep").args(["-P", &worker.id().to_string()]).output().unwrap();
    worker.kill().unwrap();
    worker.wait().unwrap();
    for child in String::from_utf8_lossy(&children.stdout).lines() {
        std::process::Command::new("kill").args(["-9", child]).status().unwrap();
    }
    std::thread::sleep(Duration::from_millis(1200));
    let drained = run(path, &server, &["worker", "--drain", "--lease", "1s"]);
    assert_eq!(drained.code, 0, "{}", drained.shown());
    assert_eq!(status(path), "suspended", "{}", drained.shown());
    let ended = run(path, &server, &["resume", "r", "--retry-in-doubt"]);
    assert_eq!(ended.code, 0, "{}", ended.shown());
    assert_eq!((server.count("/slow"), text(&path.join("after.txt")).as_str()), (2, "x"));
}

#[test]
fn a_check_shows_the_difference_of_two_requests() {
    let program = "println(http_post(\"${env(\"BASE\")}/order\", {n: 1, name: \"x\"}, {}).status)\n";
    let server = Server::start(7, 100);
    let dir = folder(&[("main.harn", program)]);
    let path = dir.path();
    assert_eq!(run(path, &server, &["run", "--durable", "--run-id", "r", "main.harn"]).code, 0);
    assert_eq!(run(path, &server, &["replay", "r", "--check"]).code, 0);
    std::fs::write(path.join("main.harn"), program.replace("n: 1", "n: 2")).unwrap();
    let checked = run(path, &server, &["replay", "r", "--check"]);
    assert_eq!((checked.code, checked.out.as_str()), (1, ""), "{}", checked.shown());
    assert!(checked.err.contains("-   \"n\": 1,\n+   \"n\": 2,\n"), "{}", checked.shown());
    assert!(checked.err.contains("    \"name\": \"x\""), "{}", checked.shown());
    assert_eq!(server.count("/order"), 1);
}

/// Returns the path of a journal in an older format.
fn fixture(format: u64) -> std::path::PathBuf {
    crate::common::repository().join(format!("crates/harn-cli/tests/journals/format-{format}.jsonl"))
}

#[test]
fn journals_of_older_formats_resume() {
    for format in 0..harn_journal::FORMAT {
        let dir = folder(&[]);
        let path = dir.path();
        let fixture = fixture(format).display().to_string();
        let imported = harn_in(path, &["runs", "import", &fixture, "--run-id", "r"]);
        assert_eq!(imported.code, 0, "format {format}: {}", imported.shown());
        assert_eq!(crate::common::shown(path)["journal_format"], format);
        let mut resume = command(&["resume", "r"]);
        resume.current_dir(path).env("GREETING", "hello");
        let resumed = crate::common::finish(resume, b"");
        let reply = "01234567890123456789abcdefghijabcdefghij";
        let wanted = format!("end true 40 200 8 [{reply}, {reply}, {reply}]\n");
        assert_eq!((resumed.code, resumed.out), (0, wanted), "format {format}: {}", resumed.err);
        assert_eq!(crate::common::shown(path)["journal_format"], harn_journal::FORMAT);
        let replayed = harn_in(path, &["replay", "r"]);
        assert_eq!(replayed.code, 0, "format {format}: {}", replayed.shown());
    }
}

#[test]
fn a_journal_of_a_later_format_stays_as_it_is() {
    let fixture = fixture(0);
    let dir = folder(&[]);
    let path = dir.path();
    // A run as a future version might write it.
    let text = std::fs::read_to_string(&fixture).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    let end = lines.pop().unwrap();
    let head = lines[0].replacen(
        "{\\\"version\\\":\\\"0.1.0\\\"",
        "{\\\"version\\\":\\\"9.0.0\\\",\\\"journal\\\":99",
        1,
    );
    assert_ne!(head, lines[0]);
    lines[0] = &head;
    let body = lines.join("\n") + "\n";
    let mut end: Value = serde_json::from_str(end).unwrap();
    end["sha256"] = harn_store::Digest::of(body.as_bytes()).to_string().into();
    std::fs::write(path.join("later.jsonl"), format!("{body}{end}\n")).unwrap();
    assert_eq!(harn_in(path, &["runs", "import", "later.jsonl", "--run-id", "later"]).code, 0);
    let before = harn_in(path, &["runs", "export", "later"]).out;
    for args in [&["resume", "later"][..], &["replay", "later"], &["fork", "later", "--at", "3"]] {
        let refused = harn_in(path, args);
        assert_eq!(refused.code, 1, "{}", refused.shown());
        assert!(
            refused.err.contains("journal format 99") && refused.err.contains("Harn 9.0.0"),
            "{}",
            refused.shown()
        );
    }
    assert_eq!(harn_in(path, &["worker", "--drain"]).code, 0);
    assert_eq!(harn_in(path, &["runs", "export", "later"]).out, before, "the run is untouched");
    let listed = harn_in(path, &["runs", "list"]);
    assert!(listed.out.contains("suspended (journal format 99)"), "{}", listed.shown());
}
