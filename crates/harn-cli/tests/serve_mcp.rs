//! `harn serve mcp`, tested by a client that implements only the protocol; and `harn playground`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value as Json, json};

use crate::common::{command, folder, harn_in};

struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    count: u64,
    _folder: tempfile::TempDir,
}

impl Client {
    /// Serves a program and initializes the session.
    fn new(program: &str) -> Client {
        let mut client = Client::silent(program);
        client.greet();
        client
    }

    fn silent(program: &str) -> Client {
        Client::of(folder(&[("server.harn", program)]), &[])
    }

    /// Serves `server.harn` of a directory.
    fn of(folder: tempfile::TempDir, options: &[&str]) -> Client {
        Client::serving(folder, "server.harn", options)
    }

    fn serving(folder: tempfile::TempDir, file: &str, options: &[&str]) -> Client {
        let mut command = command(&["serve", "mcp", file]);
        command.args(options).current_dir(folder.path());
        if options.is_empty() {
            command.env("HARN_LLM_CALLS_DISABLED", "1");
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Client { child, input, output, count: 0, _folder: folder }
    }

    fn greet(&mut self) {
        let answer = self.request("initialize", json!({"protocolVersion": "2025-11-25"}));
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "server");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    fn write(&mut self, line: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line).unwrap();
        input.write_all(b"\n").unwrap();
    }

    fn send(&mut self, message: &Json) {
        self.write(message.to_string().as_bytes());
    }

    fn next(&mut self) -> Json {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let message: Json = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        assert_eq!(message["jsonrpc"], "2.0");
        message
    }

    fn ask(&mut self, method: &str, params: Json) -> u64 {
        self.count += 1;
        let id = self.count;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn request(&mut self, method: &str, params: Json) -> Json {
        let id = self.ask(method, params);
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn call(&mut self, tool: &str, arguments: Json) -> Json {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))["result"].clone()
    }

    /// Disconnects. Returns the exit code and the standard error of the server.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.output, &mut rest).unwrap();
        assert_eq!(rest, "", "nothing but answers is on standard output");
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn text(result: &Json) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

#[test]
fn exported_functions_are_tools() {
    let mut client = Client::new(
        r#"
type Place = {city: string, zip?: string}
/** Adds two numbers. */
pub fn add(a: int, b: int = 2) -> int { a + b }
pub fn place(of: Place) -> {city: string, tags: list<int>} {
  println("asked for ${of.city}")
  {city: of.city, tags: [1]}
}
pub fn boom(x) { x.nothing() }
pub fn refuse() { throw {message: "not today", category: "auth"} }
pub fn nothing() { nil }
fn hidden() { 1 }
pub tool shout(word: string) -> string {
  description "Say it loud"
  word.upper()
}
"#,
    );
    let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let names: Vec<&str> = tools.as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["add", "place", "boom", "refuse", "nothing", "shout"]);
    assert_eq!(tools[0]["description"], "Adds two numbers.");
    assert_eq!(
        tools[0]["inputSchema"],
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"], "additionalProperties": false})
    );
    assert_eq!(tools[1]["inputSchema"]["properties"]["of"]["required"], json!(["city"]));
    assert_eq!(tools[1]["outputSchema"]["type"], "object");
    assert_eq!(text(&client.call("add", json!({"a": 40}))), "42");
    assert_eq!(text(&client.call("shout", json!({"word": "hey"}))), "HEY");
    let place = client.call("place", json!({"of": {"city": "Oslo"}}));
    assert_eq!(place["structuredContent"], json!({"city": "Oslo", "tags": [1]}));
    assert_eq!(serde_json::from_str::<Json>(text(&place)).unwrap(), place["structuredContent"]);
    assert_eq!(client.call("nothing", json!({})), json!({"content": []}));
    for (arguments, why) in [
        (json!({}), "at root: missing required key 'a'"),
        (json!({"a": "x"}), "at a: expected type 'int', got 'string'"),
        (json!({"a": 1, "z": 1}), "at root: unexpected key 'z'"),
    ] {
        let result = client.call("add", arguments);
        assert_eq!(result["isError"], true);
        assert_eq!(text(&result), format!("wrong arguments for add: {why}"));
    }
    let boom = client.call("boom", json!({"x": 1}));
    assert_eq!(
        (boom["isError"].as_bool(), text(&boom)),
        (Some(true), "Type error: unknown method `nothing` on int")
    );
    assert_eq!(text(&client.call("refuse", json!({}))), "not today");
    let unknown = client.request("tools/call", json!({"name": "hidden"}));
    assert_eq!(unknown["error"]["code"], -32602);
    let (code, said) = client.end();
    assert_eq!(code, Some(0));
    // Program output and bugs are reported to the user who runs the server.
    assert!(said.contains("asked for Oslo"), "{said}");
    assert!(said.contains("server.harn:9"), "{said}");
}

#[test]
fn what_is_registered_is_offered_and_nothing_else() {
    let mut client = Client::new(
        r#"
pub fn not_offered() { 1 }
pipeline main() {
  let tools = tool_define(tool_registry(), "double", "Double it", {
    parameters: {n: {type: "int", description: "A number"}},
    annotations: {title: "Double", readOnlyHint: true, idempotentHint: true, kind: "read"},
    handler: { args -> args.n * 2 },
  })
  mcp_tools(tools)
  mcp_resource({uri: "note://a", name: "a", text: "Text of a", mime_type: "text/plain", title: "A"})
  mcp_resource_template({uri_template: "note://by/{id}", name: "note", handler: { at ->
    if at.id == "bad" { throw "no luck" }
    if at.id == "none" { nil } else { "Note ${at.id}" }
  }})
  mcp_prompt({name: "greet", description: "A greeting", arguments: [{name: "who", required: true}, {name: "how"}],
    handler: { args -> "Greet ${args.who}${args.how ?? "."}" }})
  mcp_prompt({name: "talk", handler: { -> [{role: "user", content: "Hi"}, {role: "assistant", content: "Hello"}] }})
  mcp_prompt({name: "wrong", handler: { -> 7 }})
  mcp_resource({uri: "note://late", name: "late", text: ""})
  var reads = 0
  mcp_resource({uri: "note://now", name: "now", mime_type: "text/markdown", handler: { at ->
    reads += 1
    if reads > 2 { nil } else { "${at.uri}: read ${reads}" }
  }})
}
"#,
    );
    let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(tools.as_array().unwrap().len(), 1);
    assert_eq!((&tools[0]["title"], &tools[0]["name"]), (&json!("Double"), &json!("double")));
    assert_eq!(tools[0]["annotations"], json!({"readOnlyHint": true, "idempotentHint": true}));
    assert_eq!(text(&client.call("double", json!({"n": 21}))), "42");
    let resources = client.request("resources/list", json!({}))["result"]["resources"].clone();
    assert_eq!(resources[0], json!({"uri": "note://a", "name": "a", "title": "A", "mimeType": "text/plain"}));
    assert_eq!(resources[1]["uri"], "note://late");
    let templates =
        client.request("resources/templates/list", json!({}))["result"]["resourceTemplates"].clone();
    assert_eq!(templates, json!([{"uriTemplate": "note://by/{id}", "name": "note"}]));
    let mut read = |uri: &str| client.request("resources/read", json!({"uri": uri}));
    assert_eq!(
        read("note://a")["result"],
        json!({"contents": [{"uri": "note://a", "text": "Text of a", "mimeType": "text/plain"}]})
    );
    let now = |text: &str| json!([{"uri": "note://now", "text": text, "mimeType": "text/markdown"}]);
    assert_eq!(read("note://now")["result"]["contents"], now("note://now: read 1"));
    assert_eq!(read("note://now")["result"]["contents"], now("note://now: read 2"));
    assert_eq!(read("note://now")["error"]["code"], -32002);
    assert_eq!(read("note://by/7%20x")["result"]["contents"][0]["text"], "Note 7 x");
    assert_eq!(read("note://by/none")["error"]["code"], -32002);
    assert_eq!(read("note://b")["error"]["message"], "resource not found: note://b");
    assert_eq!(read("note://by/bad")["error"]["message"], "no luck");
    let mut prompt = |name: &str, arguments: Json| {
        client.request("prompts/get", json!({"name": name, "arguments": arguments}))
    };
    let message = |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
    assert_eq!(
        prompt("greet", json!({"who": "Ada"}))["result"],
        json!({"messages": [message("user", "Greet Ada.")], "description": "A greeting"})
    );
    assert_eq!(
        prompt("talk", json!({}))["result"]["messages"],
        json!([message("user", "Hi"), message("assistant", "Hello")])
    );
    for (name, arguments, why) in [
        ("greet", json!({}), "prompts/get: prompt `greet` needs the argument `who`"),
        ("greet", json!({"who": 1}), "prompts/get: argument `who` must be a string"),
        ("greet", json!({"who": "A", "x": "y"}), "prompts/get: prompt `greet` has no argument `x`"),
        ("none", json!({}), "prompts/get: there is no prompt `none`"),
        (
            "wrong",
            json!({}),
            "the handler of prompt `wrong` gave a value of type int; a string or a list of {role, content} is wanted",
        ),
    ] {
        assert_eq!(prompt(name, arguments)["error"]["message"], why);
    }
    assert_eq!(client.end().0, Some(0));
}

#[test]
fn requests_run_at_the_same_time_and_can_be_cancelled() {
    let mut client = Client::new(
        r#"
let gate = channel("gate", 1)
pub fn wait() { receive(gate) }
pub fn open(word: string) { send(gate, word) }
let begun = channel("begun", 1)
pub fn has_begun() { receive(begun) }
pub fn hang() { try { send(begun, 1); sleep(100s) } finally { eprintln("cleaned up") } }
pub fn spin() { send(begun, 1); while true {} }
"#,
    );
    let waits = client.ask("tools/call", json!({"name": "wait"}));
    client.call("open", json!({"word": "now"}));
    let answer = client.next();
    assert_eq!((answer["id"].as_u64(), text(&answer["result"])), (Some(waits), "now"));
    for name in ["hang", "spin"] {
        let id = client.ask("tools/call", json!({"name": name}));
        client.call("has_begun", json!({}));
        client.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}),
        );
        // A cancelled request has no response: the next response belongs to the next request.
        assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    }
    // An id that is in use.
    let id = client.ask("tools/call", json!({"name": "wait"}));
    client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
    assert_eq!(client.next()["error"]["message"], "a request of this `id` is still being answered");
    let (code, said) = client.end();
    assert_eq!(code, Some(0));
    assert!(said.contains("cleaned up"), "{said}");
}

#[test]
fn messages_that_are_none_are_told() {
    let mut client = Client::silent("pub fn a() { 1 }\npub fn leave() { exit(3) }");
    let mut wrong = |line: &[u8]| {
        client.write(line);
        let answer = client.next();
        (answer["error"]["code"].as_i64().unwrap(), answer["error"]["message"].as_str().unwrap().to_owned())
    };
    assert_eq!(wrong(b"\xff{}").0, -32700);
    assert_eq!(wrong(b"{not json").0, -32700);
    assert_eq!(wrong(b"[]"), (-32600, "a message needs a `method`".to_owned()));
    let early = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    assert_eq!(wrong(early), (-32600, "`initialize` comes first".to_owned()));
    assert_eq!(wrong(br#"{"id":[],"method":"ping"}"#).1, "an `id` is a string or a number");
    assert_eq!(
        wrong(br#"{"id":2,"method":"initialize"}"#),
        (-32602, "initialize: `protocolVersion` must be a string".to_owned())
    );
    // For an unknown version the server offers the newest one.
    let answer = client.request("initialize", json!({"protocolVersion": "1999-01-01"}));
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    let refused = |answer: Json| answer["error"]["code"].as_i64();
    assert_eq!(refused(client.request("tools/list", json!({"cursor": "x"}))), Some(-32602));
    assert_eq!(refused(client.request("tools/list", json!([]))), Some(-32602));
    assert_eq!(refused(client.request("tools/call", json!({"name": "a", "arguments": []}))), Some(-32602));
    assert_eq!(refused(client.request("tools/dance", json!({}))), Some(-32601));
    let answer = client.request("tools/call", json!({"name": "leave"}));
    assert_eq!(answer["error"]["message"], "the program ended with exit code 3");
    assert_eq!(client.end().0, Some(3));
}

#[test]
fn programs_that_cannot_be_served() {
    for (program, why) in [
        ("println(1)", "error: Thrown: the program offers nothing: export a function with `pub fn`"),
        ("let x =", "error: "),
        ("pub fn a() { 1 }\nthrow \"no\"", "error: Thrown: no"),
        ("mcp_tools(1)", "mcp_tools: "),
    ] {
        let folder = folder(&[("server.harn", program)]);
        let ran = harn_in(folder.path(), &["serve", "mcp", "server.harn"]);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{program}");
        assert!(ran.err.contains(why), "{program}: {}", ran.err);
    }
}

#[test]
fn a_pipeline_with_its_host() {
    let host = "pub fn notes_list() { [\"a\", \"b\"] }\n/** Reads. */\npub fn read(path: string) { \"text of ${path}\" }";
    let script = r#"
pipeline main(task) {
  println("${task} ${env("HARN_TASK")}: ${host_call("notes.list", {})}")
  println(host_tool_call("read", {path: "x"}), host_tool_list().map({ t -> t.name }))
  println(try { host_call("notes.drop", {}) } catch e { e })
  println(try { host_tool_call("read", {}) } catch e { e })
}
"#;
    let folder = folder(&[("host.harn", host), ("pipeline.harn", script), ("bad.harn", "throw \"no host\"")]);
    let ran = harn_in(folder.path(), &["playground", "--task", "look"]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (
            0,
            "look look: [a, b]\ntext of x [notes_list, read]\n\
             host_call(\"notes.drop\") needs `pub fn notes_drop` in host.harn, which exports notes_list, read\n\
             the host's tool `read`: read of host.harn: at root: missing required key 'path'\n",
            ""
        )
    );
    let ran = harn_in(folder.path(), &["playground", "--host", "bad.harn"]);
    assert!(ran.code == 1 && ran.err.contains("bad.harn:1"), "{}", ran.err);
    let ran = harn_in(folder.path(), &["playground", "--script", "none.harn"]);
    assert!(ran.code == 1 && ran.err.contains("none.harn"), "{}", ran.err);
    let ran = harn_in(folder.path(), &["playground", "--llm", "x"]);
    assert!(ran.code == 2 && ran.err.contains("PROVIDER:MODEL"), "{}", ran.err);
}

/// A recorded reply of a model in the format of `--llm-mock`.
const REPLY: &str = "{\"text\": \"recorded words\", \"model\": \"small\"}\n";

#[test]
fn models_are_those_that_the_options_name() {
    let files = [
        ("server.harn", "pub fn ask() { llm_call(\"hi\").text }"),
        ("replies.jsonl", REPLY),
        ("host.harn", "pub fn none() { nil }"),
        (
            "pipeline.harn",
            "pipeline main(task) { let r = llm_call(\"hi\"); println(r.text, r.provider, r.model) }",
        ),
    ];
    let mut client = Client::of(folder(&files), &["--llm-mock", "replies.jsonl"]);
    client.greet();
    assert_eq!(text(&client.call("ask", json!({}))), "recorded words");
    // There is one reply; the second call is an error of the tool.
    assert_eq!(client.call("ask", json!({}))["isError"], true);
    assert_eq!(client.end().0, Some(0));

    let home = folder(&files);
    let ran = harn_in(home.path(), &["playground", "--llm", "mock:big", "--llm-mock-record", "new.jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.ends_with(" mock big\n"), "{}", ran.out);
    let again = harn_in(home.path(), &["playground", "--llm", "mock:big", "--llm-mock", "new.jsonl"]);
    assert_eq!((again.code, again.out), (0, ran.out), "{}", again.err);
    let ran = harn_in(home.path(), &["playground", "--llm-mock", "replies.jsonl"]);
    assert!(ran.out.starts_with("recorded words "), "{}{}", ran.out, ran.err);
}

#[test]
fn a_playground_that_watches_runs_again() {
    let home = folder(&[
        ("host.harn", "pub fn say_word() { \"one\" }"),
        ("pipeline.harn", "pipeline main(task) { println(host_call(\"say.word\", {})) }"),
    ]);
    let mut command = command(&["playground", "--watch"]);
    let mut child =
        command.current_dir(home.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut next = || told.next().unwrap().unwrap();
    assert_eq!(next(), "[watch] running pipeline.harn");
    assert!(next().starts_with("[watch] ended with 0, waiting for changes"));
    std::fs::write(home.path().join("host.harn"), "pub fn say_word() { \"second\" }").unwrap();
    assert!(next().ends_with("host.harn changed"));
    assert_eq!(next(), "[watch] running pipeline.harn");
    assert!(next().starts_with("[watch] ended with 0, waiting for changes"));
    child.kill().unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(out.stdout).unwrap(), "one\nsecond\n");
}

#[test]
fn a_server_is_called_as_its_package() {
    let files = [
        ("harn.toml", "[package]\nname = \"weather\"\n"),
        ("main.harn", "pub fn a() { 1 }"),
        ("other.harn", "pub fn a() { 1 }"),
    ];
    for (file, name) in [("main.harn", "weather"), ("other.harn", "other")] {
        let mut client = Client::serving(folder(&files), file, &[]);
        let answer = client.request("initialize", json!({"protocolVersion": "2025-11-25"}));
        assert_eq!(answer["result"]["serverInfo"]["name"], name);
    }
}

#[test]
fn a_program_that_offers_nothing_is_ended() {
    let program = "let begun = channel(1)\nlet t = spawn { try { send(begun, 1); sleep(100s) } finally { eprintln(\"cleaned up\") } }\nreceive(begun)";
    let folder = folder(&[("server.harn", program)]);
    let ran = harn_in(folder.path(), &["serve", "mcp", "server.harn"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("the program offers nothing") && ran.err.contains("cleaned up"), "{}", ran.err);
}
