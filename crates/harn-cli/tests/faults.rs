//! Model failures of all kinds during a turn of a daemon, a worker, a workflow stage and a sub-agent. Transient
//! failures are retried; permanent ones are reported; no acknowledged event is lost, and no tool runs twice.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use crate::common::{command, finish, folder};
use harn_strict_servers::{Request, violation};

/// A failure of the server, its error category, and whether a retry may succeed.
const FAULTS: [(&str, &str, bool); 12] = [
    ("refused", "transient_network", true),
    ("reset", "transient_network", true),
    ("half", "transient_network", true),
    ("silent", "timeout", true),
    ("status_500", "server_error", true),
    ("status_429", "rate_limit", true),
    ("status_400", "generic", false),
    ("status_401", "auth", false),
    ("error_in_200", "overloaded", true),
    ("html", "server_error", true),
    ("other_json", "server_error", true),
    ("redirect", "generic", false),
];

/// Number of requests that a permanent fault affects: the attempts of one turn.
const ATTEMPTS: u32 = 3;

/// Starts a model server. The name of the model selects its behaviour: `KIND-HOW-FACE`.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let counts: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counts = counts.clone();
            std::thread::spawn(move || answer(stream, &counts));
        }
    });
    format!("http://{address}/v1")
}

fn reply(mut stream: &TcpStream, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n");
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}

fn says(stream: &TcpStream, text: &str) {
    let message = json!({"role": "assistant", "content": text});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1});
    let body =
        json!({"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage});
    reply(stream, "200 OK", "content-type: application/json\r\n", &body.to_string());
}

fn answer(stream: TcpStream, counts: &Mutex<BTreeMap<String, u32>>) {
    let Ok(request) = Request::read(BufReader::new(&stream)) else { return };
    assert!(violation(&request).is_none(), "{:?}", violation(&request));
    let model = request.body["model"].as_str().unwrap_or_default().to_owned();
    let count = {
        let mut counts = counts.lock().unwrap();
        let count = counts.entry(model.clone()).or_default();
        *count += 1;
        *count
    };
    let parts: Vec<&str> = model.split('-').collect();
    let [kind, how, _face] = parts[..] else { return };
    // The first reply calls a tool; the next turn encounters the fault.
    let lasts = if how == "once" { 1 } else { ATTEMPTS };
    match count {
        1 => says(&stream, "<tool_call>\ntouch({ n: 1 })\n</tool_call>"),
        n if n <= 1 + lasts => fail(&stream, kind),
        _ => says(&stream, "<done>##DONE##</done>"),
    }
}

fn fail(stream: &TcpStream, kind: &str) {
    let json_type = "content-type: application/json\r\n";
    let error = |kind: &str| json!({"error": {"type": kind, "message": format!("{kind} it is")}}).to_string();
    match kind {
        "refused" => {}
        "reset" => {
            let mut stream = stream;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-le");
        }
        "half" => {
            let mut stream = stream;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let event = json!({"choices": [{"index": 0, "delta": {"content": "Do"}}]});
            let _ = stream.write_all(format!("{head}data: {event}\n\n").as_bytes());
        }
        "silent" => std::thread::sleep(Duration::from_secs(2)),
        "status_500" => reply(stream, "500 Internal Server Error", json_type, &error("server_error")),
        "status_429" => reply(stream, "429 Too Many Requests", json_type, &error("rate_limit_exceeded")),
        "status_400" => reply(stream, "400 Bad Request", json_type, &error("invalid_request_error")),
        "status_401" => reply(stream, "401 Unauthorized", json_type, &error("authentication_error")),
        "error_in_200" => reply(stream, "200 OK", json_type, &error("overloaded_error")),
        "html" => reply(stream, "200 OK", "content-type: text/html\r\n", "<html>Sign in</html>"),
        "other_json" => reply(stream, "200 OK", json_type, r#"{"hello": [1, 2]}"#),
        "redirect" => reply(stream, "302 Found", "location: http://127.0.0.2:9/x\r\n", ""),
        other => panic!("no fault {other}"),
    }
}

/// The reaction of each kind of agent to a fault, printed as `FACE: result`.
const PROGRAM: &str = r#"
let [kind, how] = argv
fn cleaned(face) { append_file("cleaned", "${face}\n") }
fn options(face) {
  tool touch(n: int) -> string {
    description "Count"
    append_file("effects", "${face}\n")
    "ok"
  }
  {
    provider: "local", model: "${kind}-${how}-${face}", tools: touch, tool_format: "text", stream: kind == "half",
    llm_retries: 2, llm_backoff_ms: 1, timeout: 400ms, max_iterations: 8,
  }
}
fn face(name, f) {
  let result = try { f() } catch (e) { "thrown ${e?.category ?? e}" } finally { cleaned(name) }
  println("${name}: ${result}")
}

face("loop", { -> agent_loop("Work", nil, options("loop")).status })
face("sub", { ->
  let envelope = sub_agent_run("Work", options("sub"))
  "${envelope.ok} ${envelope.error?.category}"
})
face("worker", { ->
  let o = options("worker")
  let node = {mode: "agent", tools: o.tools, model_policy: {
    provider: o.provider, model: o.model, tool_format: "text", llm_retries: 2, llm_backoff_ms: 1, timeout: 400ms, stream: o.stream,
  }}
  let worker = wait_agent(spawn_agent({task: "Work", node: node}))
  "${worker.status} ${worker.result?.result?.status} ${worker.error != nil}"
})
face("stage", { ->
  let o = options("stage")
  let graph = workflow_graph({nodes: {work: {mode: "agent", tools: o.tools, model_policy: {
    provider: o.provider, model: o.model, tool_format: "text", llm_retries: 2, llm_backoff_ms: 1, timeout: 400ms, stream: o.stream,
  }}}})
  workflow_execute("Work", graph, [], {persist_path: "run.json"}).status
})
face("daemon", { ->
  var d = daemon_spawn({task: "Work", persist_path: "state", ...options("daemon")})
  var accepted = false
  var resumed = 0
  while !accepted || daemon_snapshot(d).queued_event_count > 0 {
    if !accepted { accepted = try { daemon_trigger(d, "event-1") != nil } catch (e) { false } }
    let again = try { daemon_resume("state") } catch (e) { nil }
    if again != nil {
      d = again
      resumed = resumed + 1
    }
    sleep(10ms)
  }
  daemon_stop(d)
  let told = json_parse(read_file("state/daemon.json")).recorded_messages.filter({ m -> m.content == "event-1" })
  "resumed ${resumed} times, told ${told.count()} time"
})
println("left: ${list_agents().filter({ a -> a.status == "running" }).count()}")
"#;

fn run(base: &str, place: &Path, kind: &str, how: &str) -> String {
    std::fs::write(place.join("main.harn"), PROGRAM).unwrap();
    let mut harn = command(&["run", "main.harn", "--", kind, how]);
    harn.current_dir(place).env("HOME", place).env("LOCAL_LLM_BASE_URL", base).env("NO_PROXY", "*");
    let ran = finish(harn, b"");
    assert_eq!(ran.code, 0, "{kind} {how}: {}", ran.shown());
    ran.out
}

fn lines(place: &Path, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(place.join(file)).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Returns the expected output.
fn expected(category: &str, how: &str, transient: bool) -> String {
    let passes = transient && how == "once";
    let resumed = match (transient, how) {
        (true, "once") => 0,
        // The attempts of one turn, or one turn each.
        (true, _) | (false, "once") => 1,
        (false, _) => ATTEMPTS,
    };
    let faces = if passes {
        "loop: done\nsub: true nil\nworker: completed done false\nstage: completed\n".to_owned()
    } else {
        format!(
            "loop: thrown {category}\nsub: false {category}\nworker: failed nil true\nstage: thrown {category}\n"
        )
    };
    format!("{faces}daemon: resumed {resumed} times, told 1 time\nleft: 0\n")
}

#[test]
fn every_face_of_an_agent_meets_every_fault() {
    let base = serve();
    let met = |(kind, category, transient): (&str, &str, bool)| {
        for how in ["once", "stays"] {
            let place = folder(&[]);
            let said = run(&base, place.path(), kind, how);
            assert_eq!(said, expected(category, how, transient), "{kind} {how}");
            // The tool of the turn before the fault ran once, however often the next turn was retried.
            let faces = ["daemon", "loop", "stage", "sub", "worker"];
            assert_eq!(lines(place.path(), "effects"), faces, "{kind} {how}");
            assert_eq!(lines(place.path(), "cleaned"), faces, "{kind} {how}");
        }
    };
    std::thread::scope(|scope| {
        for fault in FAULTS {
            let met = &met;
            scope.spawn(move || met(fault));
        }
    });
}
