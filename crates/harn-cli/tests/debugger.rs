//! `harn dap`: complete sessions of an editor.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::common::{command, folder};

/// Maximum time without a message.
const PATIENCE: Duration = Duration::from_secs(60);

/// An editor that debugs a program.
struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Json>,
    /// Events that the test has not consumed yet.
    events: Vec<Json>,
    seq: i64,
}

impl Editor {
    fn start(folder: &Path) -> Editor {
        let mut command = command(&["dap"]);
        command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (tell, messages) = channel();
        std::thread::spawn(move || {
            loop {
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    if output.read_line(&mut line).unwrap_or(0) == 0 {
                        return;
                    }
                    if line.trim().is_empty() {
                        break;
                    }
                    length = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
                }
                let mut body = vec![0; length];
                output.read_exact(&mut body).unwrap();
                if tell.send(serde_json::from_slice(&body).unwrap()).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Editor { child, input, messages, events: Vec::new(), seq: 0 }
    }

    fn send(&mut self, command: &str, arguments: Json) -> i64 {
        self.seq += 1;
        let text = json!({"type": "request", "seq": self.seq, "command": command, "arguments": arguments})
            .to_string();
        let message = format!("Content-Length: {}\r\n\r\n{text}", text.len());
        self.input.as_mut().unwrap().write_all(message.as_bytes()).unwrap();
        self.seq
    }

    /// Sends a request and returns the response, successful or not.
    fn answer(&mut self, command: &str, arguments: Json) -> Json {
        let seq = self.send(command, arguments);
        loop {
            let message = self.messages.recv_timeout(PATIENCE).unwrap();
            if message["type"] == "response" && message["request_seq"] == seq {
                return message;
            }
            self.events.push(message);
        }
    }

    /// Sends a request that must succeed, and returns the body of the response.
    fn ask(&mut self, command: &str, arguments: Json) -> Json {
        let answer = self.answer(command, arguments);
        assert_eq!(answer["success"], true, "{command}: {answer}");
        answer["body"].clone()
    }

    /// Returns the next event with a name.
    fn event(&mut self, name: &str) -> Json {
        loop {
            if let Some(at) = self.events.iter().position(|event| event["event"] == name) {
                return self.events.remove(at)["body"].clone();
            }
            let message = self
                .messages
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("no {name}: {:?}", self.events));
            self.events.push(message);
        }
    }

    /// Returns the next reverse request of the adapter.
    fn request(&mut self, command: &str) -> Json {
        loop {
            let message = self.messages.recv_timeout(PATIENCE).unwrap();
            if message["type"] == "request" && message["command"] == command {
                return message;
            }
            self.events.push(message);
        }
    }

    /// Responds to a reverse request of the adapter.
    fn reply(&mut self, request: &Json, mut answer: Json) {
        self.seq += 1;
        answer["type"] = "response".into();
        answer["seq"] = self.seq.into();
        answer["request_seq"] = request["seq"].clone();
        let text = answer.to_string();
        let message = format!("Content-Length: {}\r\n\r\n{text}", text.len());
        self.input.as_mut().unwrap().write_all(message.as_bytes()).unwrap();
    }

    /// Launches a program with breakpoints at lines.
    fn launch(folder: &Path, file: &str, lines: &[Json], more: Json) -> Editor {
        let mut editor = Editor::start(folder);
        let known = editor.ask("initialize", json!({"adapterID": "harn"}));
        assert_eq!(known["supportsConditionalBreakpoints"], true);
        let path = folder.join(file).display().to_string();
        let mut arguments = json!({"program": path, "cwd": folder.display().to_string()});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        editor.ask("launch", arguments);
        editor.event("initialized");
        let set = editor.ask("setBreakpoints", json!({"source": {"path": path}, "breakpoints": lines}));
        assert!(set["breakpoints"].as_array().unwrap().iter().all(|b| b["verified"] == true), "{set}");
        editor.ask("setExceptionBreakpoints", json!({"filters": ["uncaught"]}));
        editor.ask("configurationDone", json!({}));
        editor
    }

    /// Waits until the program stops. Returns the reason, the name of the function and the line.
    fn stop(&mut self) -> (String, String, u64) {
        let stopped = self.event("stopped");
        let stack = self.ask("stackTrace", json!({"threadId": stopped["threadId"]}));
        let top = &stack["stackFrames"][0];
        let text = |value: &Json| value.as_str().unwrap().to_owned();
        (text(&stopped["reason"]), text(&top["name"]), top["line"].as_u64().unwrap())
    }

    fn go(&mut self, command: &str) {
        self.ask(command, json!({"threadId": 1}));
    }

    /// Returns the variables in a scope of a stack frame as `name=value`.
    fn variables(&mut self, frame: u64, scope: &str) -> Vec<String> {
        let scopes = self.ask("scopes", json!({"frameId": frame}));
        let found = scopes["scopes"].as_array().unwrap().iter().find(|s| s["name"] == scope).cloned();
        let Some(found) = found else { return Vec::new() };
        self.parts(&found["variablesReference"])
    }

    fn parts(&mut self, reference: &Json) -> Vec<String> {
        let variables = self.ask("variables", json!({"variablesReference": reference}));
        let shown = |v: &Json| format!("{}={}", v["name"].as_str().unwrap(), v["value"].as_str().unwrap());
        variables["variables"].as_array().unwrap().iter().map(shown).collect()
    }

    /// Returns the program's output of a category until it ends, and its exit code.
    fn end(mut self, category: &str) -> (String, i64) {
        let code = self.event("exited")["exitCode"].as_i64().unwrap();
        self.event("terminated");
        let outputs =
            self.events.iter().filter(|e| e["event"] == "output" && e["body"]["category"] == category);
        let out: String = outputs.map(|e| e["body"]["output"].as_str().unwrap()).collect();
        self.ask("disconnect", json!({}));
        self.input.take();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        (out, code)
    }
}

fn at(line: u64) -> Json {
    json!({"line": line})
}

const PROGRAM: &str = "import { double } from \"lib/double\"\n\
    var total = 0\n\
    fn add(item) {\n\
    \x20 let twice = double(item.n)\n\
    \x20 total = total + twice\n\
    \x20 twice\n\
    }\n\
    let items = [{n: 1, name: \"one\"}, {n: 2, name: \"two\"}, {n: 3, name: \"three\"}]\n\
    for item in items {\n\
    \x20 println(\"${item.name}: ${add(item)}\")\n\
    }\n\
    println(total)\n";

const LIB: &str = "pub fn double(n) {\n  let result = n * 2\n  return result\n}\n";

fn project() -> tempfile::TempDir {
    folder(&[("main.harn", PROGRAM), ("lib/double.harn", LIB)])
}

#[test]
fn a_program_stops_at_lines_and_shows_its_variables() {
    let home = project();
    let mut editor = Editor::launch(home.path(), "main.harn", &[at(5)], json!({}));
    assert_eq!(editor.stop(), ("breakpoint".to_owned(), "add".to_owned(), 5));
    assert_eq!(editor.variables(1, "Locals"), ["item={n: 1, name: one}", "twice=2"]);
    assert_eq!(editor.variables(1, "Module"), ["total=0"]);
    let outer = editor.variables(2, "Locals");
    assert!(outer.iter().any(|v| v.starts_with("items=[{n: 1")), "{outer:?}");
    let value = editor.ask("evaluate", json!({"expression": "item.n + twice", "frameId": 1}));
    assert_eq!((value["result"].as_str(), value["type"].as_str()), (Some("3"), Some("int")));
    let list = editor.ask("evaluate", json!({"expression": "items", "frameId": 2}));
    assert_eq!(list["indexedVariables"], 3);
    let parts = editor.parts(&list["variablesReference"]);
    assert_eq!(parts[1], "[1]={n: 2, name: two}");
    let failed = editor.answer("evaluate", json!({"expression": "nowhere", "frameId": 1}));
    assert_eq!(
        (failed["success"].as_bool(), failed["message"].as_str()),
        (Some(false), Some("Undefined variable: nowhere"))
    );
    editor.go("continue");
    assert_eq!(editor.stop().2, 5);
    assert_eq!(editor.variables(1, "Module"), ["total=2"]);
    let stale = editor.answer("variables", json!({"variablesReference": 99}));
    assert_eq!(stale["success"], false);
    let path = home.path().join("main.harn").display().to_string();
    editor.ask("setBreakpoints", json!({"source": {"path": path}, "breakpoints": []}));
    editor.go("continue");
    let (out, code) = editor.end("stdout");
    assert_eq!((out.as_str(), code), ("one: 2\ntwo: 4\nthree: 6\n12\n", 0));
}

#[test]
fn steps_go_over_into_and_out_of_calls() {
    let home = project();
    let mut editor = Editor::launch(home.path(), "main.harn", &[], json!({"stopOnEntry": true}));
    assert_eq!(editor.stop(), ("entry".to_owned(), "pipeline".to_owned(), 2));
    let mut lines = Vec::new();
    for step in ["next", "next", "next", "stepIn", "stepIn", "next", "stepOut", "next", "stepOut", "next"] {
        editor.go(step);
        let (reason, name, line) = editor.stop();
        assert_eq!(reason, "step");
        lines.push(format!("{step} {name}:{line}"));
    }
    assert_eq!(
        lines,
        [
            "next pipeline:8",
            "next pipeline:9",
            "next pipeline:10",
            "stepIn add:4",
            "stepIn double:2",
            "next double:3",
            "stepOut add:5",
            "next add:6",
            "stepOut pipeline:10",
            "next pipeline:10",
        ]
    );
    editor.go("continue");
    assert_eq!(editor.end("stdout").0, "one: 2\ntwo: 4\nthree: 6\n12\n");
}

#[test]
fn calls_whose_results_are_returned_are_seen() {
    let text = "fn inner(n) {\n  let m = n + 1\n  return m\n}\nfn outer() {\n  return inner(1)\n}\nprintln(outer())\nprintln(2)\n";
    let home = folder(&[("main.harn", text)]);
    let mut editor = Editor::launch(home.path(), "main.harn", &[at(6)], json!({}));
    editor.stop();
    editor.go("stepIn");
    assert_eq!(editor.stop(), ("step".to_owned(), "inner".to_owned(), 2));
    let stack = editor.ask("stackTrace", json!({"threadId": 1}));
    let names: Vec<&str> =
        stack["stackFrames"].as_array().unwrap().iter().map(|f| f["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["inner", "outer", "pipeline"]);
    editor.go("stepOut");
    assert_eq!(editor.stop().2, 9);
    editor.go("continue");
    assert_eq!(editor.end("stdout").0, "2\n2\n");
}

#[test]
fn conditions_counts_messages_and_functions() {
    let home = project();
    let condition = json!({"line": 6, "condition": "item.name == \"three\""});
    let mut editor = Editor::launch(home.path(), "main.harn", &[condition], json!({}));
    assert_eq!(editor.stop(), ("breakpoint".to_owned(), "add".to_owned(), 6));
    assert_eq!(editor.variables(1, "Module"), ["total=12"]);
    editor.go("continue");
    editor.end("stdout");
    let lines = [
        json!({"line": 6, "hitCondition": "2"}),
        json!({"line": 5, "logMessage": "adding {twice} for {item.name}"}),
    ];
    let mut editor = Editor::launch(home.path(), "main.harn", &lines, json!({}));
    editor.stop();
    assert_eq!(editor.variables(1, "Module"), ["total=6"]);
    editor.ask("setFunctionBreakpoints", json!({"breakpoints": [{"name": "double"}]}));
    editor.go("continue");
    assert_eq!(editor.stop(), ("function breakpoint".to_owned(), "double".to_owned(), 2));
    editor.go("continue");
    let (said, _) = editor.end("console");
    assert_eq!(said, "adding 2 for one\nadding 4 for two\nadding 6 for three\n");
    let wrong = json!({"line": 6, "condition": "item.nam"});
    let mut editor = Editor::launch(
        home.path(),
        "main.harn",
        &[json!({"line": 12, "condition": "missing"}), wrong],
        json!({}),
    );
    assert_eq!(editor.stop().2, 12);
    editor.go("continue");
    assert!(
        editor
            .end("stderr")
            .0
            .contains("the condition `missing` of line 12 has no value: Undefined variable")
    );
}

#[test]
fn errors_stop_where_they_are_thrown() {
    let text = "fn check(n) {\n  if n > 1 {\n    throw \"too many: ${n}\"\n  }\n  n\n}\ntry { check(5) } catch (e) { println(e) }\nprintln(check(7))\n";
    let home = folder(&[("main.harn", text)]);
    let mut editor = Editor::launch(home.path(), "main.harn", &[], json!({}));
    assert_eq!(editor.stop(), ("exception".to_owned(), "check".to_owned(), 3));
    assert_eq!(editor.variables(1, "Locals"), ["n=7"]);
    let info = editor.ask("exceptionInfo", json!({"threadId": 1}));
    assert_eq!(info["description"], "Thrown: too many: 7");
    editor.go("continue");
    let (told, code) = editor.end("stderr");
    assert!(told.contains("Thrown: too many: 7") && code == 1, "{code} {told}");
}

#[test]
fn a_program_that_runs_is_paused_and_ended() {
    let text = "var n = 0\nfn turn() {\n  n = n + 1\n}\nwhile true {\n  turn()\n}\n";
    let home = folder(&[("main.harn", text)]);
    let mut editor = Editor::launch(home.path(), "main.harn", &[], json!({}));
    assert_eq!(editor.answer("stackTrace", json!({"threadId": 1}))["message"], "the program is running");
    let threads = editor.ask("threads", json!({}));
    assert_eq!(threads["threads"][0]["name"], "program");
    editor.go("pause");
    assert_eq!(editor.stop().0, "pause");
    editor.ask("terminate", json!({}));
    let (_, code) = editor.end("stdout");
    assert_eq!(code, 130);
}

#[test]
fn tasks_and_closures_are_stepped_like_functions() {
    let text = "let found = parallel each [1, 2] { n ->\n  let m = n * 10\n  m\n}\nprintln(found)\nlet up = [3].map({ x ->\n  x + 1\n})\nprintln(up)\n";
    let home = folder(&[("main.harn", text)]);
    let mut editor = Editor::launch(home.path(), "main.harn", &[at(3), at(7)], json!({}));
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push((editor.stop().2, editor.variables(1, "Locals").join(" ")));
        editor.go("continue");
    }
    seen.sort();
    assert_eq!(seen, [(3, "n=1 m=10".to_owned()), (3, "n=2 m=20".to_owned()), (7, "x=3".to_owned())]);
    assert_eq!(editor.end("stdout").0, "[10, 20]\n[4]\n");
}

#[test]
fn what_cannot_be_run_is_told() {
    let home = folder(&[
        ("bad.harn", "let = 1\n"),
        ("ask.harn", "println(llm_call(\"q\").text)\n"),
        ("r.jsonl", "{\"text\": \"hi\"}\n"),
    ]);
    let mut editor = Editor::start(home.path());
    editor.ask("initialize", json!({}));
    assert_eq!(editor.answer("launch", json!({}))["message"], "`program` is missing: the file to run");
    let told = editor.answer("launch", json!({"program": "x", "args": 1}));
    assert_eq!(told["message"], "`args` must be a list of texts, not 1");
    let told = editor.answer("launch", json!({"program": "x", "taks": "y"}));
    assert_eq!(told["message"], "`taks` is not known: did you mean `task`?");
    let told = editor.answer("launch", json!({"program": 7}));
    assert_eq!(told["message"], "`program` must be text, not 7");
    let told = editor.answer("launch", json!({"program": "x", "cwd": "no/such/folder"}));
    assert!(told["message"].as_str().unwrap().starts_with("cannot work in no/such/folder: "), "{told}");
    assert_eq!(editor.answer("attach", json!({}))["success"], false);
    assert_eq!(editor.answer("restartFrame", json!({}))["message"], "`restartFrame` is not known here");
    let path = home.path().join("bad.harn").display().to_string();
    let set = editor.ask("setBreakpoints", json!({"source": {"path": path}, "breakpoints": [at(1)]}));
    assert_eq!(set["breakpoints"][0]["message"], "the file has syntax errors");
    editor.ask("launch", json!({"program": path}));
    editor.ask("configurationDone", json!({}));
    let (told, code) = editor.end("stderr");
    assert!(told.contains("bad.harn:1:5") && code == 1, "{told}");
    // Each model call is reported as telemetry.
    let more = json!({"llmMock": home.path().join("r.jsonl"), "noDebug": true});
    let mut editor = Editor::launch(home.path(), "ask.harn", &[at(1)], more);
    editor.event("exited");
    let is_call = |e: &&Json| e["body"]["category"] == "telemetry";
    let call = editor.events.iter().find(is_call).unwrap()["body"]["data"].clone();
    assert_eq!((call["type"].as_str(), call["text"].as_str()), (Some("provider_call_response"), Some("hi")));
    let said: Vec<&Json> = editor.events.iter().filter(|e| e["body"]["category"] == "stdout").collect();
    assert_eq!(said[0]["body"]["output"], "hi\n");
    // An editor that disconnects also ends the program.
    editor.input.take();
    assert_eq!(editor.child.wait().unwrap().code(), Some(1));
}

#[test]
fn the_client_is_the_host() {
    let program = "println(host_call(\"deploy.run\", {target: \"x\"}).id)\n\
        println(try { host_call(\"deploy.stop\", {}) } catch (e) { \"caught ${e}\" })\n\
        println(try { host_call(\"deploy.other\", {}) } catch (e) { \"caught ${e}\" })\n\
        println(try { deadline 20ms { host_call(\"deploy.wait\", {}) } } catch (e) { \"late\" })\n";
    let home = folder(&[("main.harn", program)]);
    let path = home.path().join("main.harn").display().to_string();
    let mut editor = Editor::start(home.path());
    editor.ask("initialize", json!({"supportsHarnHostCall": true}));
    editor.ask("launch", json!({"program": path}));
    editor.ask("configurationDone", json!({}));
    let call = editor.request("harnHostCall");
    assert_eq!(call["arguments"], json!({"name": "deploy.run", "params": {"target": "x"}}));
    editor.reply(&call, json!({"success": true, "body": {"value": {"id": 7}}}));
    let call = editor.request("harnHostCall");
    editor.reply(&call, json!({"success": false, "message": "nothing runs"}));
    let call = editor.request("harnHostCall");
    editor.reply(&call, json!({"success": false, "message": "notSupported"}));
    let call = editor.request("harnHostCall");
    assert_eq!(call["arguments"]["name"], "deploy.wait");
    let (out, code) = editor.end("stdout");
    let told = "7\ncaught nothing runs\ncaught host_call: unsupported operation deploy.other\nlate\n";
    assert_eq!((out.as_str(), code), (told, 0));
}

#[test]
fn a_client_that_is_no_host_is_not_asked() {
    let home =
        folder(&[("main.harn", "println(try { host_call(\"deploy.run\", {}) } catch (e) { \"${e}\" })\n")]);
    let editor = Editor::launch(home.path(), "main.harn", &[], json!({}));
    assert_eq!(editor.end("stdout").0, "host_call: unsupported operation deploy.run\n");
}
