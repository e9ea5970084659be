//! A scripted editor.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use harn_lsp::Ended;
use lsp_server::{Connection, Message, Notification, Request, Response};
use serde_json::{Value, json};

use crate::editor_host::MachineHost;

/// Time limit for a response. It is far longer than any response takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// An editor with a workspace directory.
pub(super) struct Client {
    connection: Connection,
    server: Option<JoinHandle<Result<Ended, String>>>,
    folder: tempfile::TempDir,
    next: i32,
    /// Notifications that were received but not processed yet.
    told: Vec<Notification>,
}

impl Client {
    /// Creates an editor that has opened a workspace with these files.
    pub(super) fn new(files: &[(&str, &str)]) -> Client {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let (server, connection) = Connection::memory();
        let server = std::thread::spawn(move || harn_lsp::serve(&server, &MachineHost::new()));
        let mut client = Client { connection, server: Some(server), folder, next: 0, told: Vec::new() };
        let root = client.uri("");
        let answer = client.ask(
            "initialize",
            json!({"capabilities": {}, "workspaceFolders": [{"uri": root, "name": "test"}]}),
        );
        assert_eq!(answer["serverInfo"]["name"], "harn");
        client.tell("initialized", json!({}));
        client
    }

    /// Creates an editor with one open program. Returns the position of `$0` in it.
    pub(super) fn with(text: &str) -> (Client, Value) {
        let mut client = Client::new(&[]);
        let at = client.open("main.harn", text);
        (client, at)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        let root = self.folder.path().canonicalize().unwrap();
        if name.is_empty() { root } else { root.join(name) }
    }

    pub(super) fn uri(&self, name: &str) -> String {
        format!("file://{}", self.path(name).display())
    }

    /// Opens a file without its `$0` marker. Returns the position of the marker.
    pub(super) fn open(&mut self, name: &str, text: &str) -> Value {
        let (text, at) = marked(text);
        let uri = self.uri(name);
        let language =
            if Path::new(name).extension().is_some_and(|e| e == "prompt") { "harn-prompt" } else { "harn" };
        self.tell(
            "textDocument/didOpen",
            json!({"textDocument": {"uri": uri, "languageId": language, "version": 1, "text": text}}),
        );
        at
    }

    pub(super) fn tell(&mut self, method: &str, params: Value) {
        self.connection.sender.send(Notification::new(method.to_owned(), params).into()).unwrap();
    }

    /// Sends a request and returns the response.
    pub(super) fn response(&mut self, method: &str, params: Value) -> Response {
        self.next += 1;
        self.connection
            .sender
            .send(Request::new(self.next.into(), method.to_owned(), params).into())
            .unwrap();
        loop {
            match self.connection.receiver.recv_timeout(PATIENCE).expect("an answer") {
                Message::Response(response) => {
                    assert_eq!(response.id, self.next.into(), "answers come in order");
                    return response;
                }
                Message::Notification(told) => self.told.push(told),
                Message::Request(request) => panic!("the server asked {}", request.method),
            }
        }
    }

    /// Sends a request that must succeed and returns its result.
    pub(super) fn ask(&mut self, method: &str, params: Value) -> Value {
        serde_json::to_value(self.response(method, params))
            .unwrap()
            .as_object_mut()
            .and_then(|answer| {
                assert!(!answer.contains_key("error"), "{method}: {answer:?}");
                answer.remove("result")
            })
            .unwrap_or(Value::Null)
    }

    /// Sends a request that must fail and returns the error message.
    pub(super) fn refused(&mut self, method: &str, params: Value) -> String {
        let answer = serde_json::to_value(self.response(method, params)).unwrap();
        answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{method}: {answer}")).to_owned()
    }

    /// Sends a request about a position in a file.
    pub(super) fn at(&mut self, method: &str, name: &str, at: &Value) -> Value {
        let uri = self.uri(name);
        self.ask(method, json!({"textDocument": {"uri": uri}, "position": at}))
    }

    /// Sends a request about a file.
    pub(super) fn of(&mut self, method: &str, name: &str) -> Value {
        let uri = self.uri(name);
        self.ask(method, json!({"textDocument": {"uri": uri}}))
    }

    /// Returns the labels of the completions at a position.
    pub(super) fn offers(&mut self, name: &str, at: &Value) -> Vec<String> {
        let items = self.at("textDocument/completion", name, at);
        items.as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the next published diagnostics of a file.
    pub(super) fn findings(&mut self, name: &str) -> Vec<Value> {
        let uri = self.uri(name);
        loop {
            let is_it = |told: &Notification| {
                told.method == "textDocument/publishDiagnostics" && told.params["uri"] == uri.as_str()
            };
            if let Some(at) = self.told.iter().position(is_it) {
                return self.told.remove(at).params["diagnostics"].as_array().unwrap().clone();
            }
            match self.connection.receiver.recv_timeout(PATIENCE).expect("findings") {
                Message::Notification(told) => self.told.push(told),
                other => panic!("{other:?}"),
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let Some(server) = self.server.take() else { return };
        if std::thread::panicking() {
            return;
        }
        self.ask("shutdown", Value::Null);
        self.tell("exit", Value::Null);
        assert_eq!(server.join().expect("the server ends without a panic"), Ok(Ended::Well));
    }
}

/// Removes the `$0` marker. Returns the source and the marker's position.
pub(super) fn marked(text: &str) -> (String, Value) {
    let at = text.find("$0").unwrap_or(0);
    let line = text[..at].matches('\n').count();
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    let column: usize = text[start..at].chars().map(char::len_utf16).sum();
    (text.replacen("$0", "", 1), json!({"line": line, "character": column}))
}

/// Applies the edits of a response to a source.
pub(super) fn applied(text: &str, edits: &Value) -> String {
    let mut spans: Vec<(usize, usize, String)> = edits
        .as_array()
        .unwrap()
        .iter()
        .map(|edit| {
            let (start, end) = (offset(text, &edit["range"]["start"]), offset(text, &edit["range"]["end"]));
            (start, end, edit["newText"].as_str().unwrap().to_owned())
        })
        .collect();
    spans.sort_by_key(|(start, ..)| std::cmp::Reverse(*start));
    let mut out = text.to_owned();
    for (start, end, new) in spans {
        out.replace_range(start..end, &new);
    }
    out
}

/// Converts a position of the protocol to an offset. Panics if the position does not exist.
pub(super) fn offset(text: &str, at: &Value) -> usize {
    let (line, column) = (at["line"].as_u64().unwrap() as usize, at["character"].as_u64().unwrap() as usize);
    let start = if line == 0 {
        0
    } else {
        text.match_indices('\n').nth(line - 1).unwrap_or_else(|| panic!("no line {line} in {text:?}")).0 + 1
    };
    let mut units = 0;
    for (at, c) in text[start..].char_indices() {
        if units == column {
            return start + at;
        }
        assert!(c != '\n' && units < column, "no column {column} in line {line} of {text:?}");
        units += c.len_utf16();
    }
    assert_eq!(units, column, "no column {column} in line {line} of {text:?}");
    text.len()
}

/// Checks that every position in a response exists in the source.
pub(super) fn check_places(text: &str, answer: &Value) {
    match answer {
        Value::Object(fields) => {
            if let (Some(start), Some(end)) = (fields.get("start"), fields.get("end"))
                && start.get("line").is_some()
            {
                assert!(offset(text, start) <= offset(text, end), "{answer}");
            }
            fields.values().for_each(|field| check_places(text, field));
        }
        Value::Array(items) => items.iter().for_each(|item| check_places(text, item)),
        _ => {}
    }
}
