//! `llm_call` and `agent_loop` of a script, with loopback servers that use the real wire formats.
use std::io::{BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use harn_strict_servers::{Request, answer};
use harn_value::{Data as Json, json};

/// A request as received: path, headers in lower case, body.
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: String,
    pub(crate) body: Json,
}

impl From<Request> for Seen {
    fn from(request: Request) -> Seen {
        let headers = request.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        Seen { path: request.target().to_owned(), headers, body: request.body }
    }
}

/// Answers one connection per prepared reply, and forwards the requests.
pub(crate) fn serve<T: AsRef<[u8]> + Send + 'static>(replies: Vec<T>) -> (String, Receiver<Seen>) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let mut left = replies.into_iter();
    serve_with(left.len(), move |request| answer(&test, request, left.next().unwrap().as_ref()))
}

/// Answers `count` connections, and forwards the requests.
pub(crate) fn serve_with<Kept: From<Request> + Send + 'static>(
    count: usize,
    mut reply: impl FnMut(&Request) -> Vec<u8> + Send + 'static,
) -> (String, Receiver<Kept>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (give, take) = channel();
    std::thread::spawn(move || {
        for _ in 0..count {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let request = Request::read(BufReader::new(&stream)).unwrap();
            let bytes = reply(&request);
            // Sent before the reply, because the program may end as soon as it receives the reply.
            let is_heard = give.send(request.into()).is_ok();
            stream.write_all(&bytes).unwrap();
            if !is_heard {
                return;
            }
        }
    });
    (address, take)
}

pub(crate) fn http_bytes(kind: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

pub(crate) fn http(status: &str, kind: &str, extra: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{extra}connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn sse(events: &[(&str, Json)]) -> String {
    let lines: String = events
        .iter()
        .map(|(name, data)| match *name {
            "" => format!("data: {data}\n\n"),
            name => format!("event: {name}\ndata: {data}\n\n"),
        })
        .collect();
    lines
}

fn openai(chunks: &[Json]) -> String {
    let events: Vec<(&str, Json)> = chunks.iter().map(|c| ("", c.clone())).collect();
    http("200 OK", "text/event-stream", "", &(sse(&events) + "data: [DONE]\n\n"))
}

fn delta(delta: Json, finish: Option<&str>) -> Json {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

pub(crate) fn openai_call(name: &str, arguments: &str) -> String {
    let call = json!([{"index": 0, "id": "call_9", "type": "function", "function": {"name": name, "arguments": arguments}}]);
    openai(&[
        delta(json!({"role": "assistant", "tool_calls": call}), None),
        delta(json!({}), Some("tool_calls")),
        json!({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 3}}),
    ])
}

pub(crate) fn openai_text(text: &str) -> String {
    openai(&[
        delta(json!({"content": text}), None),
        delta(json!({}), Some("stop")),
        json!({"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 5}}),
    ])
}

pub(crate) fn anthropic(blocks: &[Json], stop: &str) -> String {
    let mut events = vec![(
        "message_start",
        json!({"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [],
               "model": "claude", "usage": {"input_tokens": 10, "output_tokens": 1}}}),
    )];
    for (n, block) in blocks.iter().enumerate() {
        let (start, change) = match block["type"].as_str() {
            Some("tool_use") => (
                json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}),
                json!({"type": "input_json_delta", "partial_json": block["input"].to_string()}),
            ),
            _ => (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": block["text"]})),
        };
        events.push((
            "content_block_start",
            json!({"type": "content_block_start", "index": n, "content_block": start}),
        ));
        events.push((
            "content_block_delta",
            json!({"type": "content_block_delta", "index": n, "delta": change}),
        ));
        events.push(("content_block_stop", json!({"type": "content_block_stop", "index": n})));
    }
    events.push((
        "message_delta",
        json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}}),
    ));
    events.push(("message_stop", json!({"type": "message_stop"})));
    http("200 OK", "text/event-stream", "", &sse(&events))
}

/// Creates a providers file that sends a provider's calls to a loopback server.
fn provider_at(provider: &str, url: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("[providers.{provider}]\nbase_url = \"{url}\"\n")).unwrap();
    file
}

const TOOLS: &str = r#"
let tools = tool_define(tool_registry(), "add", "Add two numbers", {
  parameters: {a: "int", b: "int"}, handler: { args -> args.a + args.b }, guidance: "Add with the tool.",
})
"#;

#[test]
fn an_openai_style_call_streams() {
    let (url, requests) = serve(vec![openai_text("Hello there.")]);
    let text = r#"
let r = llm_call("Hi", "Be kind.", {provider: "local", model: "m", temperature: 0.5})
println("${r.text} ${r.provider} ${r.stop_reason} ${r.input_tokens} ${r.output_tokens}")
"#;
    assert_eq!(
        crate::common::output(text, &[("LOCAL_LLM_BASE_URL", &url)]),
        "Hello there. local end_turn 20 5\n"
    );
    let seen = requests.recv().unwrap();
    assert_eq!(seen.path, "/v1/chat/completions");
    assert_eq!(seen.body["messages"][0], json!({"role": "system", "content": "Be kind."}));
    assert_eq!((&seen.body["stream"], &seen.body["temperature"]), (&json!(true), &json!(0.5)));
}

#[test]
fn a_loop_runs_tools_over_the_openai_format() {
    let (url, requests) = serve(vec![openai_call("add", "{\"a\": 2, \"b\": 3}"), openai_text("It is 5.")]);
    let program = format!(
        "{TOOLS}\nlet o = {{provider: \"openai\", model: \"gpt-4o\", tools: tools, tool_format: \"native\", system: \"Base.\"}}\n{}",
        r#"
let r = agent_loop("2 + 3?", nil, o)
println("${r.status} ${r.visible_text} ${r.tools_used} ${r.llm.input_tokens}")
let fragments = agent_build_turn_system_fragments(nil, o, 0)
println(prompt_explain({...o, _system_fragments: fragments}).system)
"#
    );
    let config = provider_at("openai", &format!("{url}/v1"));
    let path = config.path().display().to_string();
    let env = [("HARN_PROVIDERS_CONFIG", path.as_str()), ("OPENAI_API_KEY", "sk-secret-2")];
    let printed = crate::common::output(&program, &env);
    let (first, system) = printed.split_once('\n').unwrap();
    assert_eq!(first, "done It is 5. [add] 31");
    let one = requests.recv().unwrap().body;
    assert_eq!(one["tools"][0]["function"]["name"], "add");
    assert!(!one.to_string().contains("\"guidance\""), "{one}");
    // The request contains exactly the prompt that `prompt_explain` shows.
    assert_eq!(one["messages"][0]["content"], system.strip_suffix('\n').unwrap());
    let two = requests.recv().unwrap().body;
    let messages = two["messages"].as_array().unwrap();
    assert_eq!(messages[2]["tool_calls"][0]["id"], "call_9");
    assert_eq!(messages[3], json!({"role": "tool", "tool_call_id": "call_9", "content": "5"}));
    assert_eq!(two["messages"][0], one["messages"][0], "the prompt keeps its prefix");
}

#[test]
fn a_loop_runs_tools_over_the_anthropic_format() {
    let call = json!({"type": "tool_use", "id": "tu_1", "name": "add", "input": {"a": 2, "b": 3}});
    let replies = vec![
        anthropic(&[json!({"type": "text", "text": "I add."}), call], "tool_use"),
        anthropic(&[json!({"type": "text", "text": "It is 5."})], "end_turn"),
    ];
    let (url, requests) = serve(replies);
    let config = provider_at("anthropic", &format!("{url}/v1"));
    let program = format!(
        "{TOOLS}\n{}",
        r#"
let r = agent_loop("2 + 3?", "Base.", {
  provider: "anthropic", model: "claude-sonnet-4-20250514", tools: tools, tool_format: "native",
})
println("${r.status} ${r.tools.mode} ${r.tools_used} ${r.llm.output_tokens}")
"#
    );
    let path = config.path().display().to_string();
    let env = [("HARN_PROVIDERS_CONFIG", path.as_str()), ("ANTHROPIC_API_KEY", "sk-secret-1")];
    assert_eq!(crate::common::output(&program, &env), "done native [add] 14\n");
    let one = requests.recv().unwrap();
    assert_eq!(one.path, "/v1/messages");
    assert!(one.headers.contains("x-api-key: sk-secret-1"), "{}", one.headers);
    assert!(one.body["system"].to_string().contains("Base."), "{}", one.body);
    assert_eq!(one.body["tools"][0]["input_schema"]["required"], json!(["a", "b"]));
    let two = requests.recv().unwrap().body;
    let result = &two["messages"][2]["content"][0];
    assert_eq!(
        (&result["type"], &result["tool_use_id"], &result["content"]),
        (&json!("tool_result"), &json!("tu_1"), &json!("5"))
    );
}

#[test]
fn failures_of_servers_become_error_dicts() {
    let cases = [
        (
            http("401 Unauthorized", "application/json", "", "{\"error\": \"bad key\"}"),
            "auth terminal auth_failure",
        ),
        (
            http("429 Too Many Requests", "text/plain", "retry-after: 2\r\n", "slow"),
            "rate_limit transient rate_limit",
        ),
        (http("500 Internal Server Error", "text/plain", "", "oops"), "server_error transient server_error"),
        (http("200 OK", "text/html", "", "<html>hello</html>"), "server_error transient server_error"),
        (
            http("200 OK", "text/event-stream", "", &sse(&[("", delta(json!({"content": "half"}), None))])),
            "transient_network transient network_error",
        ),
    ];
    for (reply, expected) in cases {
        let (url, _requests) = serve(vec![reply.clone()]);
        let text = r#"
let r = llm_call_safe("Hi", nil, {provider: "local", model: "m", llm_retries: 0})
println("${r.ok} ${r.error.category} ${r.error.kind} ${r.error.reason}")
"#;
        let printed = crate::common::output(text, &[("LOCAL_LLM_BASE_URL", &url)]);
        assert_eq!(printed, format!("false {expected}\n"), "{reply}");
    }
}

#[test]
fn a_loop_tries_again_after_a_failure_that_passes() {
    let busy = http("503 Service Unavailable", "text/plain", "retry-after: 0\r\n", "busy");
    let (url, _requests) = serve(vec![busy, openai_text("Back again.")]);
    let text = r#"
let r = agent_loop("Hi", nil, {provider: "local", model: "m", llm_backoff_ms: 1})
println("${r.status} ${r.visible_text}")
"#;
    assert_eq!(crate::common::output(text, &[("LOCAL_LLM_BASE_URL", &url)]), "done Back again.\n");
}

#[test]
fn a_stream_is_read_piece_by_piece_and_its_failure_is_thrown() {
    let pieces =
        openai(&[delta(json!({"content": "one "}), None), delta(json!({"content": "two"}), Some("stop"))]);
    let (url, _requests) = serve(vec![pieces, http("401 Unauthorized", "text/plain", "", "no")]);
    let text = r#"
for chunk in llm_stream("Count", nil, {provider: "local", model: "m"}) { println("[${chunk}]") }
let failing = llm_stream("Count", nil, {provider: "local", model: "m"})
println(unwrap_err(try { for chunk in failing { println(chunk) } }).category)
"#;
    assert_eq!(crate::common::output(text, &[("LOCAL_LLM_BASE_URL", &url)]), "[one ]\n[two]\nauth\n");
}

#[test]
fn a_stream_that_breaks_off_is_caught_behind_its_pieces() {
    let broken =
        http("200 OK", "text/event-stream", "", &sse(&[("", delta(json!({"content": "half"}), None))]));
    let (url, _requests) = serve(vec![broken]);
    let text = r#"
let broken = llm_stream("Count", nil, {provider: "local", model: "m"})
let caught = unwrap_err(try { for chunk in broken { println(chunk) } })
println("${caught.category} ${caught.kind} ${caught.provider}")
"#;
    let expected = "half\ntransient_network transient local\n";
    assert_eq!(crate::common::output(text, &[("LOCAL_LLM_BASE_URL", &url)]), expected);
}

#[test]
fn a_stream_that_nobody_reads_any_more_is_hung_up() {
    for leave in [
        "for chunk in llm_stream(\"Count\", nil, o) { println(chunk); break }",
        "let s = llm_stream(\"Count\", nil, o)\nprintln(receive(s))\nclose_channel(s)",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            Request::read(BufReader::new(&stream)).unwrap();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            let part = sse(&[("", delta(json!({"content": "one"}), None))]);
            stream.write_all(format!("{head}{part}").as_bytes()).unwrap();
            stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
            // The end of the stream, or a reset: in both cases, the client has disconnected.
            match stream.read(&mut [0; 16]) {
                Ok(n) => assert_eq!(n, 0),
                Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset, "still connected"),
            }
            // The next call is answered only then, so the connection was not closed by the end of the program.
            let (mut stream, _) = listener.accept().unwrap();
            Request::read(BufReader::new(&stream)).unwrap();
            stream.write_all(openai_text("next").as_bytes()).unwrap();
        });
        let text = format!(
            "let o = {{provider: \"local\", model: \"m\"}}\n{leave}\nprintln(llm_call(\"x\", nil, o).text)"
        );
        assert_eq!(crate::common::output(&text, &[("LOCAL_LLM_BASE_URL", &url)]), "one\nnext\n", "{leave}");
        server.join().unwrap();
    }
}

#[test]
fn a_missing_key_is_named_before_anything_is_sent() {
    let text = r#"
println(unwrap_err(try { llm_call("x", nil, {provider: "openai"}) }).starts_with("Missing API key: set OPENAI_API_KEY environment variable ("))
println(llm_call_safe("x", nil, {provider: "openai"}).error.category)
"#;
    assert_eq!(crate::common::output(text, &[]), "true\nauth\n");
}
/// Returns the system prompt of a request in either wire format.
fn system_of(body: &Json) -> String {
    let text = |blocks: &Json| match blocks {
        Json::String(text) => text.clone(),
        blocks => blocks.as_array().unwrap().iter().map(|b| b["text"].as_str().unwrap()).collect(),
    };
    match body.get("system") {
        Some(system) => text(system),
        None => text(&body["messages"][0]["content"]),
    }
}

#[test]
fn the_system_string_on_the_wire_is_the_explained_one() {
    let host_parts = r#"system: "Base.", system_preamble: "P", system_prompt_parts: ["a", {title: "T", content: "b"}],
  system_appendix: "A", system_suffix: "S", caps: ["x"],
  context_profile: {prompt_fragments: [{body: "gated", requires_caps: ["x"]}, {body: "out", requires_caps: ["y"]}]}"#;
    let call = r#"
llm_call("Hi", nil, o)
print(prompt_explain(o).system)
"#;
    let run = r#"
agent_loop("Hi", nil, o)
print(prompt_explain({...o, _system_fragments: agent_build_turn_system_fragments(nil, o, 0)}).system)
"#;
    let persistent = r#"persistent: true, recitation: "Remember.", progress_tool: "add", "#;
    let anthropic_text = |text: &str| anthropic(&[json!({"type": "text", "text": text})], "end_turn");
    for (provider, model, key) in [
        ("openai", "gpt-4o", "OPENAI_API_KEY"),
        ("anthropic", "claude-sonnet-4-20250514", "ANTHROPIC_API_KEY"),
    ] {
        for (body, format, more) in [
            (call, "native", ""),
            (run, "native", ""),
            (run, "native", persistent),
            (run, "text", persistent),
        ] {
            let reply = match provider {
                "openai" => openai_text("##DONE##"),
                _ => anthropic_text("##DONE##"),
            };
            let (url, requests) = serve(vec![reply]);
            let config = provider_at(provider, &format!("{url}/v1"));
            let program = format!(
                "{TOOLS}\nlet o = {{provider: \"{provider}\", model: \"{model}\", tools: tools, tool_format: \"{format}\", {more}{host_parts}}}\n{body}"
            );
            let path = config.path().display().to_string();
            let env = [("HARN_PROVIDERS_CONFIG", path.as_str()), (key, "sk-secret-3")];
            let explained = crate::common::output(&program, &env);
            let sent = requests.recv().unwrap().body;
            assert_eq!(system_of(&sent), explained, "{provider} {format} {more}");
            for part in ["P\n\n", "Base.", "## T\nb", "gated", "Add with the tool.", "\n\nA\n\nS"] {
                assert!(explained.contains(part), "{provider} {format} {more}: {explained}");
            }
            assert!(!explained.contains("out\n"), "{explained}");
        }
    }
}
