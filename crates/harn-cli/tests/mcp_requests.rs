//! Requests and notifications of MCP servers, and the program's responses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::common::{Ran, command, finish, folder};

/// A server whose tools send requests to the client and announce other tools. If a request fails, the tool returns the
/// client's error.
const ASKING: &str = r#"
fn send(message) { println(json_stringify({jsonrpc: "2.0", ...message})) }
fn answer(id, result) { send({id: id, result: result}) }
fn text(t) { {content: [{type: "text", text: t}]} }
var late = false
fn entry(name) { {name: name, inputSchema: {type: "object"}} }
fn ask(method, params) {
  send({id: "q", method: method, params: params})
  var reply = json_parse(read_line())
  if reply?.method == "notifications/cancelled" {
    append_file("cancelled.log", "${reply.params.requestId}")
    return "cancelled"
  }
  json_stringify(reply?.result ?? reply.error.message)
}
let schema = {type: "object", properties: {ok: {type: "boolean"}}, required: ["ok"]}
pipeline default() {
  var line = read_line()
  while line != nil {
    let m = json_parse(line)
    match m.method {
      "initialize" -> {
        let capabilities = {tools: {listChanged: true}, logging: {}}
        append_file("capabilities.log", json_stringify(m.params.capabilities))
        answer(m.id, {protocolVersion: m.params.protocolVersion, serverInfo: {name: "asking"}, capabilities: capabilities, instructions: "Ask <done>first</done>."})
      }
      "tools/list" -> {
        let names = ["sample", "elicit", "roots", "log", "grow", "wait"]
        answer(m.id, {tools: (if late { names.push("late") } else { names }).map({ n -> entry(n) })})
      }
      "logging/setLevel" -> {
        append_file("level.log", m.params.level)
        answer(m.id, {})
      }
      "tools/call" -> {
        match m.params.name {
          "sample" -> { answer(m.id, text(ask("sampling/createMessage", {messages: [{role: "user", content: {type: "text", text: "hi"}}], maxTokens: 5}))) }
          "elicit" -> { answer(m.id, text(ask("elicitation/create", {message: "sure?", requestedSchema: schema}))) }
          "roots" -> { answer(m.id, text(ask("roots/list", {}))) }
          "log" -> {
            send({method: "notifications/message", params: {level: "info", logger: "l", data: {n: 1}}})
            answer(m.id, text("logged"))
          }
          "grow" -> {
            late = true
            send({method: "notifications/tools/list_changed"})
            answer(m.id, text("grown"))
          }
          "late" -> { answer(m.id, text("late answer")) }
          _ -> { nil }
        }
      }
      "notifications/cancelled" -> { append_file("cancelled.log", "${m.params.requestId}") }
      _ -> { nil }
    }
    line = read_line()
  }
}
"#;

fn run(place: &tempfile::TempDir, program: &str, args: &[&str]) -> Ran {
    let program = program.replace("HARN", &format!("{:?}", env!("CARGO_BIN_EXE_harn")));
    std::fs::write(place.path().join("main.harn"), program).unwrap();
    std::fs::write(place.path().join("asking.harn"), ASKING).unwrap();
    let mut harn = command(&[&["run"], args, &["main.harn"]].concat());
    harn.current_dir(place.path()).env("HOME", place.path());
    finish(harn, b"")
}

#[test]
fn requests_of_a_server_are_rejected_without_a_callback() {
    let place = folder(&[]);
    let ran = run(
        &place,
        r#"
let c = mcp_connect(HARN, ["run", "asking.harn"])
for name in ["sample", "elicit", "roots", "log"] { println(mcp_call(c, name)) }
println(mcp_server_info(c).instructions)
"#,
        &[],
    );
    let rejected = "\"Method not found\"\n".repeat(3);
    assert_eq!(ran.out, format!("{rejected}logged\nAsk <done>first</done>.\n"), "{}", ran.shown());
    assert_eq!(std::fs::read_to_string(place.path().join("capabilities.log")).unwrap(), "{}");
}

const ANSWERS: &str = r#"
let options = {
  timeout: 2s, log_level: "warning", roots: ["a b", {uri: "file:///x", name: "x"}],
  on_sampling: { request ->
    sleep(10ms)
    "${request.server} ${request.messages[0].content.text} ${request.maxTokens}"
  },
  on_elicitation: { request -> {action: "accept", content: {ok: request.message == "sure?"}} },
  on_log: { entry -> println("log ${entry.level} ${entry.logger} ${entry.data}") },
}
"#;

#[test]
fn callbacks_answer_requests_of_a_server() {
    let place = folder(&[]);
    let program = r#"
let c = mcp_connect(HARN, ["run", "asking.harn"], options)
println(json_parse(mcp_call(c, "sample")).content.text)
println(json_parse(mcp_call(c, "elicit")).content)
let roots = json_parse(mcp_call(c, "roots")).roots
println("${roots[0].uri.ends_with("/a%20b")} ${roots[1]}")
println(mcp_call(c, "log"))
"#;
    let expected = "asking hi 5\n{ok: true}\ntrue {name: x, uri: file:///x}\nlog info l {n: 1}\nlogged\n";
    let ran = run(&place, &format!("{ANSWERS}{program}"), &["--durable", "--run-id", "r1"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, expected), "{}", ran.shown());
    assert_eq!(std::fs::read_to_string(place.path().join("level.log")).unwrap(), "warning");
    let capabilities = std::fs::read_to_string(place.path().join("capabilities.log")).unwrap();
    let capabilities: Json = serde_json::from_str(&capabilities).unwrap();
    assert_eq!(capabilities, json!({"sampling": {}, "elicitation": {}, "roots": {}}));
    // A replayed run sends no requests.
    let mut replay = command(&["replay", "r1"]);
    replay.current_dir(place.path());
    let again = finish(replay, b"");
    assert_eq!(again.out, expected, "{}", again.shown());
}

#[test]
fn callbacks_that_fail_answer_nothing() {
    let place = folder(&[]);
    let ran = run(
        &place,
        r#"
fn go(options, name) {
  let c = mcp_connect(HARN, ["run", "asking.harn"], options)
  println(mcp_call(c, name))
}
go({on_elicitation: { r -> {action: "accept", content: {ok: "yes"}} }}, "elicit")
go({on_elicitation: { r -> true }}, "elicit")
go({on_elicitation: { r -> nil }}, "elicit")
go({on_sampling: { r -> throw "my secret reason" }}, "sample")
go({on_sampling: { r -> nil }}, "sample")
go({roots: { r -> 3 }}, "roots")
for bad in [{on_sampling: 3}, {roots: "x"}, {on_smpling: 3}, {log_level: "loud"}, {headers: {a: "b"}}] {
  println(try { mcp_connect("x", [], bad) } catch (e) { e })
}
"#,
        &[],
    );
    let none = "\"the client did not answer\"\n";
    let expected = format!(
        "{none}{none}{{\"action\":\"decline\"}}\n{none}\"the user rejected the sampling request\"\n{none}\
         Type error: mcp_connect: on_sampling must be closure, got int\n\
         MCP server `mcp_connect`: `roots` must be a list of paths or of dicts with `uri`, or a function\n\
         Runtime error: mcp_connect: unknown option `on_smpling`, did you mean `on_sampling`?\n\
         MCP server `mcp_connect`: `log_level` must be one of debug, info, notice, warning, error, critical, alert, emergency\n\
         MCP server `mcp_connect`: `headers` is for the transport \"http\", and this one is \"stdio\"\n"
    );
    assert_eq!(ran.out, expected, "{}", ran.shown());
    assert!(
        ran.err.contains("on_sampling of MCP server 'asking': Thrown: my secret reason"),
        "{}",
        ran.shown()
    );
    assert!(ran.err.contains("on_elicitation of MCP server 'asking' must return "), "{}", ran.shown());
}

#[test]
fn a_loop_follows_changes_of_tools_and_passes_instructions_on() {
    let place = folder(&[]);
    let ran = run(
        &place,
        r#"
fn offered(n) { llm_mock_calls()[n].system.contains("function s__late(") }
llm_mock({tool_calls: [{name: "s__grow", arguments: {}}]})
llm_mock({tool_calls: [{name: "s__late", arguments: {}}]})
llm_mock({text: "Done."})
let server = {name: "s", command: [HARN, "run", "asking.harn"]}
let r = agent_loop("x", nil, {provider: "mock", mcp_servers: [server]})
println("${offered(0)} ${offered(1)} ${r.tools.successful}")
println(llm_mock_calls()[0].system.contains("Ask &lt;done>first&lt;/done>."))
llm_mock_clear()
llm_mock({text: "Done."})
agent_loop("x", nil, {provider: "mock", mcp_servers: [{...server, instructions: false}]})
println(llm_mock_calls()[0].system.contains("Ask"))
"#,
        &["--durable"],
    );
    let expected = "false true [s__grow, s__late]\ntrue\nfalse\n";
    assert_eq!((ran.code, ran.out.as_str()), (0, expected), "{}", ran.shown());
}

#[test]
fn a_caller_that_leaves_cancels_its_request() {
    let place = folder(&[]);
    let ran = run(
        &place,
        r#"
let c = mcp_connect(HARN, ["run", "asking.harn"], {on_sampling: { r -> sleep(1h) }})
println(try { deadline 200ms { mcp_call(c, "wait") } } catch (e) { "late" })
println(try { deadline 200ms { mcp_call(c, "sample") } } catch (e) { "late" })
var left = 500
while left > 0 && !(file_exists("cancelled.log") && len(read_file("cancelled.log")) == 2) {
  sleep(10ms)
  left = left - 1
}
println(read_file("cancelled.log"))
"#,
        &[],
    );
    assert_eq!(ran.out, "late\nlate\n23\n", "{}", ran.shown());
}

/// A strict HTTP server: it requires the session and the version, and its tools disconnect, send requests and wait.
struct Strict {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

struct Request {
    method: String,
    headers: Vec<(String, String)>,
    body: Json,
}

impl Request {
    fn read(input: &mut BufReader<&TcpStream>) -> Option<Request> {
        let mut line = String::new();
        input.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let method = line.split(' ').next()?.to_owned();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            input.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Request { method, headers, body: Json::Null };
        let mut body = vec![0; request.header("content-length").unwrap_or("0").parse().ok()?];
        input.read_exact(&mut body).ok()?;
        request.body = serde_json::from_slice(&body).unwrap_or_default();
        Some(request)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

impl Strict {
    fn start() -> Strict {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let log = heard.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let log = log.clone();
                std::thread::spawn(move || {
                    let mut input = BufReader::new(&socket);
                    while let Some(request) = Request::read(&mut input) {
                        if Strict::serve(&request, &socket, &log).is_none() {
                            let _ = socket.shutdown(std::net::Shutdown::Both);
                            return;
                        }
                    }
                });
            }
        });
        Strict { port, heard }
    }

    /// Responds to a request; `None` when the connection is closed.
    fn serve(request: &Request, mut out: &TcpStream, log: &Mutex<Vec<String>>) -> Option<()> {
        let id = &request.body["id"];
        let method = request.body["method"].as_str().unwrap_or_default();
        let last = request.header("last-event-id");
        let what = last.map_or_else(|| method.to_owned(), |last| format!("after {last}"));
        let said = &request.body["result"];
        let told = if said.is_null() { what } else { format!("answer {said}") };
        log.lock().unwrap().push(format!(
            "{} {told} {}",
            request.method,
            request.header("x-own").unwrap_or("-")
        ));
        let mut plain = |status: &str, more: &str, body: &str| {
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{more}content-length: {length}\r\n\r\n"
            );
            out.write_all(format!("{head}{body}").as_bytes()).ok()
        };
        if method == "initialize" {
            let result = json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "strict"}, "capabilities": {"tools": {"listChanged": true}}});
            let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
            return plain("200 OK", "mcp-session-id: s1\r\n", &body);
        }
        if request.header("mcp-session-id") != Some("s1")
            || request.header("mcp-protocol-version") != Some("2025-11-25")
        {
            return plain("400 Bad Request", "", "{}");
        }
        let event = |event: &str, message: &Json| format!("id: {event}\nretry: 20\ndata: {message}\n\n");
        let answer = |id: &Json, text: &str| json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}});
        match (request.method.as_str(), method, request.body["params"]["name"].as_str()) {
            ("DELETE", ..) => plain("200 OK", "", ""),
            ("GET", ..) if last.is_some_and(|last| last.starts_with("break")) => {
                // The response is sent at the second attempt.
                let id: Json = serde_json::from_str(last?.rsplit('-').next()?).ok()?;
                let tries = log.lock().unwrap().iter().filter(|line| line.contains("after break")).count();
                let said = if tries < 2 {
                    event(&format!("break-again-{id}"), &json!({"jsonrpc": "2.0", "method": "x"}))
                } else {
                    event("end", &answer(&id, "resumed"))
                };
                out.write_all(format!("{STREAM}{said}").as_bytes()).ok()?;
                None
            }
            ("GET", ..) => {
                out.write_all(
                    format!(
                        "{STREAM}{}",
                        event("g1", &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
                    )
                    .as_bytes(),
                )
                .ok()?;
                let mut rest = [0; 1];
                let _ = out.read(&mut rest);
                None
            }
            (_, "tools/list", _) => {
                let tools: Vec<Json> = ["break", "ask", "wait", "plain"]
                    .iter()
                    .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
                    .collect();
                plain(
                    "200 OK",
                    "",
                    &json!({"jsonrpc": "2.0", "id": id, "result": {"tools": tools}}).to_string(),
                )
            }
            (_, "tools/call", Some("break")) => {
                // An event with an id and no data, as servers send it before they disconnect.
                out.write_all(format!("{STREAM}id: break-{id}\nretry: 20\ndata:\n\n").as_bytes()).ok()?;
                None
            }
            (_, "tools/call", Some("ask")) => {
                let asked = json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"});
                out.write_all(format!("{STREAM}data: {asked}\n\n").as_bytes()).ok()?;
                std::thread::sleep(Duration::from_millis(100));
                out.write_all(format!("data: {}\n\n", answer(id, "asked")).as_bytes()).ok()?;
                None
            }
            (_, "tools/call", Some("wait")) => {
                let mut rest = [0; 1];
                let _ = out.read(&mut rest);
                None
            }
            (_, "tools/call", _) => plain("200 OK", "", &answer(id, "plain").to_string()),
            _ => plain("202 Accepted", "", ""),
        }
    }

    fn count(&self, beginning: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|line| line.starts_with(beginning)).count()
    }
}

#[test]
fn a_stream_that_the_server_closes_is_resumed() {
    let server = Strict::start();
    let place = folder(&[]);
    let program = r#"
let c = mcp_connect("http://127.0.0.1:PORT/mcp", nil, {headers: {"X-Own": "me"}, roots: ["/r"], timeout: 5s})
println(mcp_call(c, "break"))
println(mcp_call(c, "ask"))
println(mcp_call(c, "plain"))
mcp_disconnect(c)
println(try { mcp_call(c, "plain") } catch (e) { e })
"#
    .replace("PORT", &server.port.to_string());
    let ran = run(&place, &program, &["--durable"]);
    assert_eq!(ran.out, "resumed\nasked\nplain\nMCP client is disconnected\n", "{}", ran.shown());
    let heard = server.heard.lock().unwrap().clone();
    assert_eq!(server.count("GET after break"), 2, "{heard:?}");
    assert!(heard.iter().all(|line| line.ends_with(" me")), "{heard:?}");
    assert_eq!(server.count("POST answer {\"roots\":[{\"uri\":\"file:///r\"}]}"), 1, "{heard:?}");
    assert_eq!(server.count("DELETE "), 1, "{heard:?}");
}

#[test]
fn the_stream_of_the_server_is_heard_and_requests_are_cancelled() {
    let server = Strict::start();
    let place = folder(&[]);
    let program = r#"
let url = "http://127.0.0.1:PORT/mcp"
let c = mcp_connect(url)
println(try { deadline 200ms { mcp_call(c, "wait") } } catch (e) { "late" })
sleep(300ms)
tool pause() -> string {
  description "Wait"
  sleep(200ms)
  "waited"
}
llm_mock({tool_calls: [{name: "pause", arguments: {}}]})
llm_mock({text: "Done."})
println(agent_loop("x", nil, {provider: "mock", tools: pause, mcp_servers: [{name: "far", url: url}]}).status)
"#
    .replace("PORT", &server.port.to_string());
    let ran = run(&place, &program, &[]);
    assert_eq!(ran.out, "late\ndone\n", "{}", ran.shown());
    let heard = server.heard.lock().unwrap().clone();
    assert_eq!(server.count("POST notifications/cancelled"), 1, "{heard:?}");
    // The list is read at the start of the loop, and again after the stream has announced a change.
    assert_eq!(server.count("POST tools/list"), 2, "{heard:?}");
    assert_eq!(server.count("GET "), 2, "{heard:?}");
    assert_eq!(server.count("DELETE "), 1, "{heard:?}");
}
