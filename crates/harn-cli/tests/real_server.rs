//! Servers of the official SDK of the Model Context Protocol, over both transports.
//!
//! `make test-real-server` installs the SDK and runs these tests; without it they say so and pass.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{command, finish, folder};

/// A server that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The interpreter that has the SDK, if it is installed.
fn python() -> Option<PathBuf> {
    let found = std::env::var_os("HARN_REAL_SERVERS").map(|dir| Path::new(&dir).join("mcp/bin/python"));
    let found = found.filter(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: the SDK of MCP is not installed; `make test-real-server` installs it");
    }
    found
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_server/server.py")
}

const PROGRAM: &str = r#"
let answers = {
  timeout: 20s, roots: ["/r"],
  on_sampling: { r -> "sampled ${r.messages[0].content.text}" },
  on_elicitation: { r -> {action: "accept", content: {ok: true}} },
  on_log: { e -> println("log ${e.data}") },
}
let c = CONNECT
for name in ["talk", "ask", "sample", "roots", TOOLS] { println("${name}: ${mcp_call(c, name)}") }
println("${mcp_call(c, "add", {a: 1, b: 2})} ${mcp_call(c, "person", {name: "Ada"})}")
println("${mcp_read_resource(c, "note://7")} ${mcp_get_prompt(c, "hello", {who: "Ada"}).messages[0].content.text}")
println(mcp_server_info(c).instructions)
println(try { deadline 500ms { mcp_call(c, "slow") } } catch (e) { e })
for n in 1 to 500 {
  if file_exists("cancelled.txt") { break }
  sleep(10ms)
}
println(file_exists("cancelled.txt"))
mcp_disconnect(c)
llm_mock({tool_calls: [{name: "s__grow", arguments: {}}]})
llm_mock({tool_calls: [{name: "s__grown", arguments: {}}]})
llm_mock({text: "Done."})
println(agent_loop("x", nil, {provider: "mock", mcp_servers: [SERVER]}).tools.successful)
"#;

fn expected(more: &str) -> String {
    format!(
        "log hello\ntalk: {{result: talked}}\nask: {{result: accept True}}\nsample: {{result: sampled hi}}\n\
         roots: {{result: file:///r}}\n{more}{{result: 3}} {{age: 3, name: Ada}}\nnote 7 Hello Ada\nAdd first.\n\
         Deadline exceeded\ntrue\n[s__grow, s__grown]\n"
    )
}

fn check(place: &tempfile::TempDir, connect: &str, server: &str, tools: &str, expected: &str) {
    let program = PROGRAM.replace("CONNECT", connect).replace("SERVER", server).replace("TOOLS", tools);
    std::fs::write(place.path().join("main.harn"), program).unwrap();
    let mut harn = command(&["run", "main.harn"]);
    harn.current_dir(place.path()).env("HOME", place.path());
    let ran = finish(harn, b"");
    assert_eq!((ran.code, ran.out.as_str()), (0, expected), "{}", ran.shown());
}

#[test]
fn a_server_of_the_sdk_over_pipes() {
    let Some(python) = python() else { return };
    let place = folder(&[]);
    let command = format!("[{:?}, {:?}]", python.display().to_string(), script().display().to_string());
    let connect = format!(
        "mcp_connect({:?}, [{:?}], answers)",
        python.display().to_string(),
        script().display().to_string()
    );
    check(&place, &connect, &format!("{{name: \"s\", command: {command}}}"), "", &expected(""));
}

#[test]
fn a_server_of_the_sdk_over_http() {
    let Some(python) = python() else { return };
    let place = folder(&[]);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = Command::new(python);
    server.arg(script()).arg(port.to_string()).current_dir(place.path());
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Running(server.spawn().unwrap());
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(running.0.try_wait().unwrap().is_none(), "the server ended");
        assert!(started.elapsed() < Duration::from_secs(60), "the server does not listen");
        std::thread::sleep(Duration::from_millis(100));
    }
    let url = format!("\"http://127.0.0.1:{port}/mcp\"");
    let (connect, server) =
        (format!("mcp_connect({url}, nil, answers)"), format!("{{name: \"s\", url: {url}}}"));
    check(&place, &connect, &server, "\"poll\"", &expected("poll: {result: resumed}\n"));
}
