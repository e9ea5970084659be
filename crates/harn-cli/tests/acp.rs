//! `harn serve acp`, tested by a client that implements only the protocol.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value as Json, json};

use crate::common::{command, folder, harn};

/// A client of a served program.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    count: u64,
    cwd: tempfile::TempDir,
}

impl Client {
    /// Serves a program and opens a session.
    fn new(program: &str, capabilities: Json) -> (Client, String) {
        let mut client = Client::serve(folder(&[("agent.harn", program)]), capabilities);
        let cwd = client.cwd.path().to_owned();
        let answer = client.request("session/new", json!({"cwd": cwd, "mcpServers": []}));
        let id = answer["result"]["sessionId"].as_str().unwrap().to_owned();
        (client, id)
    }

    /// Serves the program in a directory.
    fn serve(cwd: tempfile::TempDir, capabilities: Json) -> Client {
        let mut command = command(&["serve", "acp", "agent.harn"]);
        command.current_dir(cwd.path()).env("HARN_LLM_CALLS_DISABLED", "1");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut client = Client { child, input, output, count: 0, cwd };
        let answer = client.request(
            "initialize",
            json!({"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": {"name": "test"}}),
        );
        assert_eq!(answer["result"]["protocolVersion"], 1);
        assert_eq!(answer["result"]["agentInfo"]["name"], "harn");
        assert_eq!(answer["result"]["agentCapabilities"]["loadSession"], true);
        client
    }

    fn load(&mut self, session: &str) -> u64 {
        let cwd = self.cwd.path().to_owned();
        self.ask("session/load", json!({"sessionId": session, "cwd": cwd, "mcpServers": []}))
    }

    fn send(&mut self, message: &Json) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn next(&mut self) -> Json {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the server has ended");
        let message: Json = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0");
        message
    }

    fn ask(&mut self, method: &str, params: Json) -> u64 {
        self.count += 1;
        let id = self.count;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a request and returns the response, which must be the next message.
    fn request(&mut self, method: &str, params: Json) -> Json {
        let id = self.ask(method, params);
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn prompt(&mut self, session: &str, text: &str) -> u64 {
        self.ask("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]}))
    }

    /// Returns the updates before the response to a request, and the response. `hear` may answer requests of the
    /// server.
    fn until(&mut self, id: u64, mut hear: impl FnMut(&Json) -> Option<Json>) -> (Vec<Json>, Json) {
        let mut updates = Vec::new();
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return (updates, message);
            }
            if message["method"] == "session/update" {
                updates.push(message["params"]["update"].clone());
            }
            if let Some(reply) = hear(&message) {
                self.send(&reply);
            }
        }
    }

    /// Closes the server's input. Returns its exit code and its standard error.
    fn end(self) -> (Option<i32>, String) {
        let (code, err, _) = self.leave();
        (code, err)
    }

    /// Like [`Client::end`], and returns the directory for the next client.
    fn leave(mut self) -> (Option<i32>, String, tempfile::TempDir) {
        drop(self.input.take());
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap(), self.cwd)
    }
}

fn answer_to(asked: &Json, result: Json) -> Option<Json> {
    Some(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
}

fn texts(updates: &[Json]) -> Vec<&str> {
    updates.iter().filter_map(|update| update["content"]["text"].as_str()).collect()
}

#[test]
fn a_prompt_runs_the_program() {
    let program = r#"
pipeline main(task) {
  let tools = tool_define(tool_registry(), "add", "Add", {parameters: {a: "int"}, handler: { x -> x.a + 1 }})
  llm_mock({tool_calls: [{name: "add", arguments: {a: 1}}]})
  llm_mock({text: "It is 2."})
  agent_loop(task, nil, {provider: "mock", tools: tools, session_id: "chat"})
  println("printed in ${host_call("session.info").id}: ${host_call("runtime.task")}")
  println(len(agent_session_snapshot("chat").messages.filter({ m -> m.content == task })))
}
"#;
    let (mut client, session) = Client::new(program, json!({}));
    for round in ["What is 1 + 1?", "Again."] {
        let id = client.prompt(&session, round);
        let (updates, answer) = client.until(id, |_| None);
        assert_eq!(answer["result"], json!({"stopReason": "end_turn"}), "{answer}");
        let kinds: Vec<&str> = updates.iter().filter_map(|u| u["sessionUpdate"].as_str()).collect();
        let calls = ["tool_call", "tool_call_update", "tool_call_update"];
        let talk = ["agent_message_chunk", "agent_message_chunk", "agent_message_chunk"];
        // Only updates of the protocol, in the right order.
        assert_eq!(kinds, [&calls[..], &talk[..]].concat(), "{updates:#?}");
        assert_eq!(updates[0]["title"], "add");
        assert_eq!(updates[0]["rawInput"], json!({"a": 1}));
        assert_eq!(updates[2]["status"], "completed");
        // Call ids are unique within the session.
        let id = if round == "Again." { "mock_call_1.2" } else { "mock_call_1" };
        assert!(updates[..3].iter().all(|update| update["toolCallId"] == id), "{updates:#?}");
        assert_eq!(texts(&updates[3..]), ["It is 2.", &format!("printed in {session}: {round}\n"), "1\n"]);
    }
    assert_eq!(client.end(), (Some(0), String::new()));
}

#[test]
fn a_session_is_loaded_by_another_process() {
    let program = r#"
pipeline main(task) {
  let tools = tool_define(tool_registry(), "add", "Add", {parameters: {a: "int"}, handler: { x -> x.a + 1 }})
  llm_mock({tool_calls: [{name: "add", arguments: {a: 1}}]})
  llm_mock({text: "Answer to ${task}."})
  agent_loop(task, nil, {provider: "mock", tools: tools, session_id: "chat"})
  println(agent_session_snapshot("chat").messages.filter({ m -> m.role == "user" && !m.content.contains("<") }).map({ m -> m.content }))
}
"#;
    let (mut client, session) = Client::new(program, json!({}));
    let mut told = Vec::new();
    for task in ["one", "two"] {
        let id = client.prompt(&session, task);
        let (updates, _) = client.until(id, |_| None);
        told.push(json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": task}}));
        told.extend(updates);
    }
    // Another session in the directory has a separate conversation, even though the program uses the same name for it.
    let answer = client.request("session/new", json!({"cwd": client.cwd.path(), "mcpServers": []}));
    let other = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    let id = client.prompt(&other, "aside");
    assert_eq!(texts(&client.until(id, |_| None).0).last(), Some(&"[aside]\n"));
    let again = client.load(&session);
    assert!(
        client.until(again, |_| None).1["error"]["message"].as_str().unwrap().contains("is open already")
    );
    let (code, err, place) = client.leave();
    assert_eq!((code, err.as_str()), (Some(0), ""));

    // An incomplete line is skipped.
    let log = place.path().join(".harn/acp").join(format!("{session}.jsonl"));
    let mut text = std::fs::read_to_string(&log).unwrap();
    text.push_str("{\"sessionUpdate\": \"agent_mess");
    std::fs::write(&log, text).unwrap();
    let mut client = Client::serve(place, json!({}));
    let id = client.load(&session);
    let (updates, answer) = client.until(id, |_| None);
    assert_eq!(answer["result"], json!({}), "{answer}");
    assert_eq!(updates, told);
    let id = client.prompt(&session, "three");
    let (updates, _) = client.until(id, |_| None);
    assert_eq!(texts(&updates).last(), Some(&"[one, two, three]\n"), "{updates:#?}");
    assert_eq!(updates[0]["toolCallId"], "mock_call_1.3");
    for wrong in ["session_none", "../../etc/passwd", ""] {
        let id = client.load(wrong);
        let answer = client.until(id, |_| None).1;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("there is no session"), "{answer}");
    }
    let (code, err, place) = client.leave();
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let text =
        std::fs::read_to_string(place.path().join(".harn/acp").join(format!("{session}.jsonl"))).unwrap();
    assert!(text.lines().all(|line| serde_json::from_str::<Json>(line).is_ok()), "{text}");
}

#[test]
fn the_client_permits_calls() {
    let program = r#"
pipeline main(task) {
  let tools = tool_define(tool_registry(), "act", "Act", {parameters: {}, handler: { x -> "acted" }})
  llm_mock({tool_calls: [{name: "act", arguments: {}}]})
  llm_mock({text: "end"})
  let r = agent_loop(task, nil, {provider: "mock", tools: tools, approval_policy: {require_approval: ["act"]}})
  println("${r.tools.successful} ${r.tools.rejected}")
}
"#;
    let (mut client, session) = Client::new(program, json!({}));
    let replies = [
        (json!({"outcome": {"outcome": "selected", "optionId": "allow"}}), "[act] []\n"),
        (json!({"outcome": {"outcome": "selected", "optionId": "reject"}}), "[] [act]\n"),
        (json!({"outcome": {"outcome": "cancelled"}}), "[] [act]\n"),
        (json!({"outcome": "allow"}), "[] [act]\n"),
        (json!({"outcome": {"outcome": "selected"}}), "[] [act]\n"),
    ];
    for (reply, said) in replies {
        let id = client.prompt(&session, "go");
        let mut asked = 0;
        let (updates, _) = client.until(id, |message| {
            if message["method"] != "session/request_permission" {
                return None;
            }
            asked += 1;
            let params = &message["params"];
            assert_eq!(params["toolCall"]["title"], "act");
            let kinds: Vec<&Json> =
                params["options"].as_array().unwrap().iter().map(|o| &o["kind"]).collect();
            assert_eq!(kinds, ["allow_once", "reject_once"]);
            answer_to(message, reply.clone())
        });
        assert_eq!((asked, texts(&updates).last()), (1, Some(&said)));
    }
}

#[test]
fn a_prompt_is_cancelled() {
    let program = r#"
pipeline main(task) {
  try {
    println("begun")
    if task == "sleep" { sleep(1h) }
    while task == "count" { }
  } finally {
    println("cleaned")
  }
}
"#;
    let (mut client, session) = Client::new(program, json!({}));
    for task in ["sleep", "count"] {
        let id = client.prompt(&session, task);
        let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}});
        let (updates, answer) = client.until(id, |message| {
            let begun = message["params"]["update"]["content"]["text"] == "begun\n";
            begun.then(|| cancel.clone())
        });
        assert_eq!(answer["result"]["stopReason"], "cancelled");
        assert_eq!(texts(&updates), ["begun\n", "cleaned\n"]);
    }
    // The session continues.
    let id = client.prompt(&session, "other");
    assert_eq!(client.until(id, |_| None).1["result"]["stopReason"], "end_turn");
    // A client that disconnects ends the running program.
    client.prompt(&session, "sleep");
    client.next();
    assert_eq!(client.end().0, Some(0));
}

#[test]
fn a_client_that_knows_harn() {
    let program = r#"
pipeline main(task) {
  skill ship {
    description "x"
    prompt "SHIPPING"
  }
  println(host_tool_list().map({ t -> t.name }))
  println(host_call("editor.open", {path: "a"}))
  let tools = tool_define(tool_registry(), "look", "Look", {parameters: {}, handler: nil})
  llm_mock({tool_calls: [{name: "look", arguments: {}}]})
  llm_mock({text: "one"})
  llm_mock({text: "two"})
  let r = agent_loop(task, nil, {provider: "mock", tools: tools, skills: ship, skill_match: {strategy: "host"},
                                 daemon: true, max_iterations: 3})
  println(llm_mock_calls()[0].system.contains("SHIPPING"))
  println(r.transcript.messages.map({ m -> m.content }).last(3))
}
"#;
    let (mut client, session) = Client::new(program, json!({"_meta": {"harn": true}}));
    let id = client.prompt(&session, "go");
    let mut idle = false;
    let (updates, answer) = client.until(id, |message| {
        let params = &message["params"];
        match message["method"].as_str()? {
            "host/tools/list" => answer_to(message, json!({"tools": [{"name": "look"}]})),
            "host/call" if params["name"] == "editor.open" => answer_to(message, json!("opened")),
            "host/call" => Some(
                json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "?"}}),
            ),
            "skill/match" => answer_to(message, json!({"matches": [{"name": "ship"}]})),
            "builtin_call" => {
                assert_eq!((&params["name"], &params["args"]), (&json!("look"), &json!([{}])));
                answer_to(message, json!("seen"))
            }
            "agent/idle" if !idle => {
                idle = true;
                Some(json!({"jsonrpc": "2.0", "method": "session/input",
                            "params": {"sessionId": session, "content": "more"}}))
            }
            _ => None,
        }
    });
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let said = texts(&updates);
    assert_eq!(said[..2], ["[look]\n", "opened\n"]);
    assert_eq!(said[said.len() - 2..], ["true\n", "[one, more, two]\n"]);
    let own: Vec<&str> = updates.iter().filter_map(|u| u["sessionUpdate"].as_str()).collect();
    assert!(own.contains(&"skill_activated") && own.contains(&"turn_end"), "{own:?}");
}

#[test]
fn what_is_wrong_is_said() {
    let program = "pipeline main(task) {\n  println(\"x\")\n  if task == \"throw\" { throw \"broken\" }\n  sleep(1h)\n}\n";
    let (mut client, session) = Client::new(program, json!({}));
    let code = |answer: &Json| answer["error"]["code"].as_i64();
    let message = |answer: &Json| answer["error"]["message"].as_str().unwrap_or_default().to_owned();
    let answer = client
        .request("session/prompt", json!({"sessionId": "none", "prompt": [{"type": "text", "text": "x"}]}));
    assert_eq!((code(&answer), message(&answer)), (Some(-32602), "there is no session `none`".to_owned()));
    let image =
        json!({"sessionId": session, "prompt": [{"type": "image", "data": "", "mimeType": "image/png"}]});
    let answer = client.request("session/prompt", image);
    assert!(message(&answer).contains("content of type `image`"), "{answer}");
    let answer = client.request("session/sing", json!({}));
    assert_eq!((code(&answer), message(&answer)), (Some(-32601), "unknown method `session/sing`".to_owned()));
    let answer = client.request("session/new", json!({"cwd": "relative", "mcpServers": []}));
    assert_eq!(message(&answer), "session/new: `cwd` must be an absolute path");
    let servers = json!([{"type": "http", "name": "x", "url": "http://127.0.0.1:1/", "headers": []}]);
    let answer = client.request("session/new", json!({"cwd": std::env::temp_dir(), "mcpServers": servers}));
    assert!(message(&answer).contains("`mcpServers`: only servers over standard input"), "{answer}");
    writeln!(client.input.as_mut().unwrap(), "no json").unwrap();
    assert_eq!(code(&client.next()), Some(-32700));

    let id = client.prompt(&session, "throw");
    let (_, answer) = client.until(id, |_| None);
    assert_eq!(code(&answer), Some(-32603));
    assert!(message(&answer).contains("broken"), "{answer}");
    let first = client.prompt(&session, "wait");
    client.next();
    let second = client.prompt(&session, "too soon");
    let (_, answer) = client.until(second, |_| None);
    assert!(message(&answer).contains("still being answered"), "{answer}");
    client.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}));
    assert_eq!(client.until(first, |_| None).1["result"]["stopReason"], "cancelled");
    client.send(&json!({"jsonrpc": "2.0", "method": "agent/sing", "params": {}}));
    let (_, err) = client.end();
    assert_eq!(err, "[harn] warning: agent/sing: unknown notification\n");
}

#[test]
fn messages_that_do_not_fit_name_the_field() {
    let (mut client, session) = Client::new("pipeline main(task) { println(task) }\n", json!({}));
    let text = json!({"type": "text", "text": "x"});
    let cwd = std::env::temp_dir();
    let server = json!({"name": "x", "args": [], "env": []});
    for (method, params, wrong) in [
        ("initialize", json!({}), "missing field `protocolVersion`"),
        (
            "initialize",
            json!({"protocolVersion": "1"}),
            "`protocolVersion`: invalid type: string \"1\", expected u16",
        ),
        ("authenticate", json!({}), "missing field `methodId`"),
        ("session/new", json!({"mcpServers": []}), "missing field `cwd`"),
        ("session/new", json!({"cwd": cwd}), "missing field `mcpServers`"),
        (
            "session/new",
            json!({"cwd": 3, "mcpServers": []}),
            "`cwd`: invalid type: integer `3`, expected path string",
        ),
        (
            "session/new",
            json!({"cwd": cwd, "mcpServers": [], "additionalDirectories": ["/"]}),
            "a program works in one folder; leave `additionalDirectories` away",
        ),
        ("session/load", json!({"cwd": cwd, "mcpServers": []}), "missing field `sessionId`"),
        ("session/prompt", json!({"prompt": [text]}), "missing field `sessionId`"),
        ("session/prompt", json!({"sessionId": session}), "missing field `prompt`"),
        (
            "session/prompt",
            json!({"sessionId": 7, "prompt": [text]}),
            "`sessionId`: invalid type: integer `7`",
        ),
        (
            "session/prompt",
            json!({"sessionId": session, "prompt": "x"}),
            "`prompt`: invalid type: string \"x\"",
        ),
        (
            "session/prompt",
            json!({"sessionId": session, "prompt": [text, {"type": "text"}]}),
            "`prompt[1]`: missing field `text`",
        ),
        (
            "session/prompt",
            json!({"sessionId": session, "prompt": [{"type": "film"}]}),
            "`prompt[0].type`: unknown variant `film`",
        ),
        ("session/prompt", json!({"sessionId": session, "prompt": []}), "the prompt is empty"),
        ("session/prompt", json!([session, [text]]), "there must be an object, got list"),
        ("session/prompt", Json::Null, "there must be an object, got nil"),
    ] {
        let answer = client.request(method, params);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("{method}: {wrong}")), "{message}");
    }
    let answer = client.request("session/new", json!({"cwd": cwd, "mcpServers": [server]}));
    assert!(answer["error"]["message"].as_str().unwrap().contains("`mcpServers[0]`"), "{answer}");
    for id in [json!(1.5), json!({}), json!([1])] {
        client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}}));
        let answer = client.next();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Json::Null, &json!(-32600)), "{answer}");
    }
    client.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": [session]}}));
    // The session is still served.
    let id = client.prompt(&session, "on");
    assert_eq!(texts(&client.until(id, |_| None).0), ["on\n"]);
    let (_, err) = client.end();
    let told = "[harn] warning: session/cancel: `sessionId`: invalid type: sequence, expected a string\n";
    assert_eq!(err, told);
}

#[test]
fn kinds_and_states_are_words_of_the_protocol() {
    let program = r#"
tool look() -> string {
  description "Look"
  annotations {kind: "read", side_effect_level: "none"}
  "seen"
}
tool plain() -> string {
  description "Plain"
  throw "broken"
}
pipeline main(task) {
  llm_mock({tool_calls: [{name: "look", arguments: {}}, {name: "plain", arguments: {}}]})
  llm_mock({text: "end"})
  agent_loop(task, nil, {provider: "mock", tools: [look, plain]})
}
"#;
    let (mut client, session) = Client::new(program, json!({}));
    let id = client.prompt(&session, "go");
    let (updates, _) = client.until(id, |_| None);
    let kinds: Vec<(&Json, &Json)> = updates
        .iter()
        .filter(|u| u["sessionUpdate"] == "tool_call")
        .map(|u| (&u["title"], &u["kind"]))
        .collect();
    // `other` and `pending` are the defaults for calls without annotations.
    assert_eq!(kinds, [(&json!("look"), &json!("read")), (&json!("plain"), &Json::Null)]);
    let states = updates.iter().filter(|u| u["sessionUpdate"] == "tool_call_update").map(|u| &u["status"]);
    let mut states: Vec<&str> = states.filter_map(Json::as_str).collect();
    states.sort_unstable();
    assert_eq!(states, ["completed", "failed", "in_progress", "in_progress"]);
}

#[test]
fn the_client_has_skills() {
    let program = r####"
pipeline main(task) {
  llm_mock_clear()
  if task != "Nothing" { llm_mock({tool_calls: [{name: "load_skill", arguments: {name: "notes"}}]}) }
  llm_mock({text: "end"})
  agent_loop(task, nil, {provider: "mock", skills: skills, tool_format: "native"})
  let sent = llm_mock_calls().last().system ?? ""
  println(["### deploy", "Ship it.", "### notes", "Write them."].filter({ text -> sent.contains(text) }))
}
"####;
    let (mut client, session) = Client::new(program, json!({"_meta": {"harn": true}}));
    let mut asked = Vec::new();
    let mut list = json!([
        {"id": "1", "name": "deploy", "description": "Deploy a release"},
        {"id": "2", "name": "notes", "description": "Notes about it"}, {"name": "x"},
    ]);
    for (task, wanted) in [
        ("Deploy it", "[### deploy, Ship it., ### notes, Write them.]\n"),
        ("Hello", "[### notes, Write them.]\n"),
        ("Nothing", "[]\n"),
    ] {
        if task == "Nothing" {
            list = json!("none");
        }
        let id = client.prompt(&session, task);
        let (updates, answer) = client.until(id, |message| {
            let params = &message["params"];
            let method = message["method"].as_str()?;
            match method {
                "skills/list" | "skills/fetch" => {
                    assert_eq!(params["sessionId"], session, "{message}");
                    asked.push(format!("{task}: {method} {}", params["id"].as_str().unwrap_or_default()));
                }
                _ => {}
            }
            match method {
                "host/tools/list" => answer_to(message, json!([])),
                "skills/list" => answer_to(message, list.clone()),
                "skills/fetch" if params["id"] == "1" => answer_to(message, json!({"body": "Ship it."})),
                "skills/fetch" => answer_to(message, json!({"result": {"body": "Write them."}})),
                _ => None,
            }
        });
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        assert_eq!(texts(&updates).last(), Some(&wanted), "{updates:#?}");
    }
    assert_eq!(
        asked,
        [
            "Deploy it: skills/list ",
            "Deploy it: skills/fetch 1",
            "Deploy it: skills/fetch 2",
            "Hello: skills/list ",
            "Hello: skills/fetch 2",
            "Nothing: skills/list ",
        ]
    );
    let (_, err) = client.end();
    assert_eq!(
        err,
        "[harn] warning: skills/list: skill 2 (`x`): `id` must be a text that is not empty; it is not there\n\
         [harn] warning: skills/list: the answer must be a list of skills, got string; the skills of the host are not there\n"
    );

    // A client without the Harn extensions receives no such requests.
    let (mut client, session) = Client::new(program, json!({}));
    let id = client.prompt(&session, "Nothing");
    let (updates, _) = client.until(id, |message| {
        assert_eq!(message["method"], "session/update", "{message}");
        None
    });
    assert_eq!(texts(&updates).last(), Some(&"[]\n"));
    assert_eq!(client.end(), (Some(0), String::new()));
}

#[test]
fn a_program_that_cannot_run_is_not_served() {
    let place = folder(&[("bad.harn", "pipeline main(task) { nothing_here() }")]);
    let file = place.path().join("bad.harn").display().to_string();
    let ran = harn(&["serve", "acp", &file]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("nothing_here"), "{}", ran.err);
    let ran = harn(&["serve", "acp", "/no/such/file.harn"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("Error reading"), "{}", ran.err);
}

#[test]
fn loops_have_the_tools_of_the_clients_servers() {
    let server = r#"read l; echo '{"id":1,"result":{"serverInfo":{"name":"s"},"capabilities":{"tools":{}}}}'; read l
        read l; echo '{"id":2,"result":{"tools":[{"name":"who","inputSchema":{"type":"object"}}]}}'
        read l; echo '{"id":3,"result":{"content":[{"type":"text","text":"'$WHO'"}]}}'
        read l; echo '{"id":4,"result":{"tools":[{"name":"who","inputSchema":{"type":"object"}}]}}'; read l"#;
    let program = r#"pipeline main(task) {
  llm_mock({tool_calls: [{name: "s__who", arguments: {}}]})
  llm_mock({text: "Done."})
  let r = agent_loop(task, nil, {provider: "mock"})
  println("tools ${r.tools.successful}")
}
"#;
    let (mut client, _) = Client::new(program, json!({}));
    let servers = json!([
        {"name": "s", "command": "sh", "args": ["-c", server], "env": [{"name": "WHO", "value": "me"}]},
        {"name": "gone", "command": "/no/such/server", "args": [], "env": []},
    ]);
    let cwd = std::env::temp_dir();
    let answer = client.request("session/new", json!({"cwd": cwd, "mcpServers": servers}));
    let session = answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    let id = client.prompt(&session, "who am I?");
    let (updates, answer) = client.until(id, |_| None);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let told = Json::from(updates).to_string();
    assert!(told.contains("tools [s__who]") && told.contains("\"me\""), "{told}");
}
