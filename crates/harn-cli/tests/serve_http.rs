//! `harn serve mcp --transport http`: access control, sessions, and a Harn program as the client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::{Value as Json, json};

use crate::common::{command, folder, harn_in};

const PROGRAM: &str = "/** Adds two numbers. */\npub fn add(a: int, b: int = 2) -> int { a + b }\n\
                       pub fn leave() { exit(7) }\n\
                       pub fn wait() { try { sleep(100s) } finally { eprintln(\"ended early\") } }\n";

/// A running server, which ends with the test.
struct Server {
    child: Child,
    address: String,
    folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A response: its status, the session header, and the body.
struct Reply {
    status: u16,
    session: Option<String>,
    body: Json,
}

impl Server {
    fn start(args: &[&str]) -> Server {
        let folder = folder(&[("server.harn", PROGRAM), ("card.json", "{\"name\": \"sums\"}")]);
        let start = ["serve", "mcp", "server.harn", "--transport", "http", "--bind", "127.0.0.1:0"];
        let args: Vec<&str> = start.iter().chain(args).copied().collect();
        let mut child = command(&args)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("Harn MCP server listening on http://").unwrap();
        let (address, _) = address.split_once('/').unwrap();
        Server { child, address: address.to_owned(), folder }
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
        let usual =
            [("Host", self.address.as_str()), ("Content-Type", "application/json"), ("Connection", "close")];
        for (name, value) in usual.iter().filter(|(name, _)| !headers.iter().any(|(given, _)| given == name))
        {
            head += &format!("{name}: {value}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        let body = serde_json::from_str(body).unwrap_or_default();
        Reply { status, session: session.map(str::to_owned), body }
    }

    fn post(&self, headers: &[(&str, &str)], message: &Json) -> Reply {
        self.ask("POST", "/mcp", headers, &message.to_string())
    }

    fn greet(&self, headers: &[(&str, &str)]) -> Reply {
        let params = json!({"protocolVersion": "2025-11-25"});
        self.post(headers, &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}))
    }
}

fn call(id: u64, name: &str, arguments: Json) -> Json {
    let params = json!({"name": name, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

#[test]
fn a_conversation_over_http() {
    let mut server = Server::start(&["--card", "card.json"]);
    let add = call(2, "add", json!({"a": 40}));
    assert_eq!(server.post(&[], &add).status, 400);
    assert_eq!(server.post(&[("Mcp-Session-Id", "none")], &add).status, 404);
    let greeted = server.greet(&[]);
    assert_eq!((greeted.status, &greeted.body["result"]["protocolVersion"]), (200, &"2025-11-25".into()));
    let session = greeted.session.unwrap();
    let own = [("Mcp-Session-Id", session.as_str())];
    assert_eq!(
        server.post(&own, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).status,
        202
    );
    let sum = server.post(&own, &add);
    assert_eq!((sum.status, &sum.body["result"]["content"][0]["text"]), (200, &"42".into()), "{}", sum.body);
    assert_eq!(server.ask("GET", "/.well-known/mcp.json", &[], "").body, json!({"name": "sums"}));
    // Invalid messages.
    for (method, headers, body, status) in [
        ("GET", &own[..], "", 405),
        ("POST", &own, "{", 400),
        ("POST", &own, "[]", 400),
        ("POST", &[own[0], ("Mcp-Protocol-Version", "1999-01-01")], "{}", 400),
        ("POST", &[own[0], ("Content-Type", "text/plain")], "{}", 415),
        ("POST", &[own[0], ("Host", "evil.test")], "{}", 403),
        ("POST", &[own[0], ("Origin", "http://evil.test")], "{}", 403),
    ] {
        assert_eq!(server.ask(method, "/mcp", headers, body).status, status, "{method} {headers:?} {body}");
    }
    // After the end of a session the client must initialize a new one.
    assert_eq!(server.ask("DELETE", "/mcp", &own, "").status, 204);
    assert_eq!(server.post(&own, &add).status, 404);
    // A program that exits also ends the server, after the response.
    let session = server.greet(&[]).session.unwrap();
    let left = server.post(&[("Mcp-Session-Id", session.as_str())], &call(3, "leave", json!({})));
    assert_eq!((left.status, left.body["error"].is_object()), (200, true), "{}", left.body);
    assert_eq!(server.child.wait().unwrap().code(), Some(7));
}

#[test]
fn a_request_is_cancelled() {
    let server = Server::start(&[]);
    let session = server.greet(&[]).session.unwrap();
    let own = [("Mcp-Session-Id", session.as_str())];
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| server.post(&own, &call(5, "wait", json!({}))));
        std::thread::sleep(std::time::Duration::from_millis(300));
        let params = json!({"requestId": 5});
        server.post(&own, &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
        assert_eq!(waiting.join().unwrap().status, 202);
    });
}

#[test]
fn keys_are_asked_for() {
    let server = Server::start(&["--api-key", "k1", "--path", "/tools"]);
    let hello = "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"initialize\", \"params\": {\"protocolVersion\": \"2025-11-25\"}}";
    let ask = |headers: &[(&str, &str)]| server.ask("POST", "/tools", headers, hello).status;
    assert_eq!((ask(&[]), ask(&[("Authorization", "Bearer k2")])), (401, 401));
    assert_eq!((ask(&[("Authorization", "Bearer k1")]), ask(&[("X-API-Key", "k1")])), (200, 200));
    assert_eq!(server.ask("POST", "/mcp", &[("X-API-Key", "k1")], hello).status, 404);
    // A program is a client.
    let manifest = format!(
        "[[mcp]]\nname = \"sums\"\ntransport = \"http\"\nurl = \"http://{}/tools\"\nauth_token = \"k1\"\n",
        server.address
    );
    let client = "println(mcp_call(mcp_ensure_active(\"sums\"), \"add\", {a: 3}))\n";
    let home = folder(&[("harn.toml", manifest.as_str()), ("client.harn", client)]);
    let ran = harn_in(home.path(), &["run", "client.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "5\n"), "{}", ran.shown());
    assert!(server.folder.path().is_dir());
}

#[test]
fn what_cannot_be_served() {
    let home = folder(&[("server.harn", PROGRAM), ("list.json", "[]")]);
    let serve = |args: &[&str]| {
        let args: Vec<&str> = ["serve", "mcp", "server.harn"].iter().chain(args).copied().collect();
        harn_in(home.path(), &args)
    };
    for option in [
        ["--bind", "127.0.0.1:0"],
        ["--path", "/x"],
        ["--card", "list.json"],
        ["--api-key", "k"],
        ["--hmac-secret", "s"],
    ] {
        let ran = serve(&option);
        let text = format!("{} needs --transport http", option[0]);
        assert!(ran.code == 2 && ran.err.contains(&text), "{option:?}: {}", ran.shown());
    }
    for (option, code, text) in [
        (["--bind", "0.0.0.0:0"], 1, "can be reached from other machines: give --api-key"),
        (["--bind", "nowhere"], 1, "cannot listen on nowhere"),
        (["--path", "mcp"], 2, "--path must be a path such as /mcp"),
        (["--api-key", " "], 2, "--api-key must not be empty"),
        (["--card", "list.json"], 2, "a card is a JSON object"),
        (["--card", "none.json"], 2, "--card: none.json"),
    ] {
        let ran = serve(&["--transport", "http", option[0], option[1]]);
        assert!(ran.code == code && ran.err.contains(text), "{option:?}: {}", ran.shown());
    }
}
