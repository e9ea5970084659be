//! Servers and clients of the official SDKs of the Model Context Protocol, over both transports.
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

/// What `make test-real-server` installed, if it is there.
fn installed(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os("HARN_REAL_SERVERS").map(|dir| Path::new(&dir).join(name));
    let found = found.filter(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: {name} is not installed; `make test-real-server` installs it");
    }
    found
}

/// The interpreter that has the SDK, if it is installed.
fn python() -> Option<PathBuf> {
    installed("mcp/bin/python")
}

fn script() -> PathBuf {
    data("server.py")
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_server").join(name)
}

/// Starts a server and waits until it listens on the port that it is given.
fn start(command: impl FnOnce(u16) -> Command) -> (Running, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = command(port);
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Running(server.spawn().unwrap());
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(running.0.try_wait().unwrap().is_none(), "the server ended");
        assert!(started.elapsed() < Duration::from_secs(60), "the server does not listen");
        std::thread::sleep(Duration::from_millis(100));
    }
    (running, port)
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
    let (_running, port) = start(|port| {
        let mut server = Command::new(python);
        server.arg(script()).arg(port.to_string()).current_dir(place.path());
        server
    });
    let url = format!("\"http://127.0.0.1:{port}/mcp\"");
    let (connect, server) =
        (format!("mcp_connect({url}, nil, answers)"), format!("{{name: \"s\", url: {url}}}"));
    check(&place, &connect, &server, "\"poll\"", &expected("poll: {result: resumed}\n"));
}

/// The tools of the server that shows every feature of the protocol.
const EVERYTHING: &str = r#"
let answers = {
  timeout: 20s, roots: ["/r"],
  on_sampling: { r -> "sampled" },
  on_elicitation: { r -> {action: "accept", content: {name: "Ada", check: true}} },
  on_log: { e -> nil },
}
let c = CONNECT
let text = { name, args -> let r = mcp_call(c, name, args); if type_of(r) == "list" { r.map({ b -> b.text ?? b.type }).join(" ") } else { to_string(r) } }
println("${text("echo", {message: "hi"})} ${text("get-sum", {a: 1, b: 2})}")
println(mcp_call(c, "get-structured-content", {location: "Chicago"}).keys())
println(contains(json_stringify(mcp_call(c, "get-tiny-image", {})), "image/png"))
println(contains(text("get-roots-list", {}), "file:///r"))
println(contains(text("trigger-sampling-request", {prompt: "hello", maxTokens: 5}), "sampled"))
println(contains(text("trigger-elicitation-request", {}), "Ada"))
println(contains(text("trigger-long-running-operation", {duration: 0.2, steps: 2}), "completed"))
println(contains(text("get-resource-links", {count: 1}), "resource_link"))
println(mcp_read_resource(c, mcp_list_resources(c)[0].uri).len() > 10)
println(mcp_get_prompt(c, "args-prompt", {city: "Bern", state: "BE"}).messages[0].content.text)
println(contains(unwrap_err(try { mcp_call(c, "get-sum", {a: "x", b: 2}) }), "-32602"))
mcp_disconnect(c)
llm_mock({tool_calls: [{name: "every__get-sum", arguments: {a: 2, b: 3}}, {name: "every__get-tiny-image", arguments: {}}]})
llm_mock({text: "Done."})
println(agent_loop("x", nil, {provider: "mock", mcp_servers: [SERVER]}).tools.successful)
"#;

fn check_everything(connect: &str, server: &str) {
    let program = EVERYTHING.replace("CONNECT", connect).replace("SERVER", server);
    let place = folder(&[("main.harn", &program)]);
    let mut harn = command(&["run", "main.harn"]);
    harn.current_dir(place.path()).env("HOME", place.path());
    let ran = finish(harn, b"");
    let expected = "Echo: hi The sum of 1 and 2 is 3.\n[conditions, humidity, temperature]\ntrue\ntrue\ntrue\ntrue\ntrue\ntrue\ntrue\n\
        What's weather in Bern, BE?\ntrue\n[every__get-sum, every__get-tiny-image]\n";
    assert_eq!((ran.code, ran.out.as_str()), (0, expected), "{}", ran.shown());
}

#[test]
fn the_server_of_everything_over_both_transports() {
    let Some(program) = installed("npm/node_modules/.bin/mcp-server-everything") else { return };
    let path = program.display().to_string();
    check_everything(
        &format!("mcp_connect({path:?}, [\"stdio\"], answers)"),
        &format!("{{name: \"every\", command: [{path:?}, \"stdio\"]}}"),
    );
    let (_running, port) = start(|port| {
        let mut server = Command::new(program);
        server.arg("streamableHttp").env("PORT", port.to_string());
        server
    });
    let url = format!("http://127.0.0.1:{port}/mcp");
    check_everything(
        &format!("mcp_connect({url:?}, nil, answers)"),
        &format!("{{name: \"every\", url: {url:?}}}"),
    );
}

const SERVED: &str = r#"
mcp_tools(tool_define(tool_registry(), "add", "Adds", {parameters: {a: "int", b: "int"}, handler: { args -> args.a + args.b }}))
mcp_resource_template({uri_template: "note://{id}", name: "note", handler: { args -> "note ${args.id}" }})
mcp_prompt({name: "hello", arguments: [{name: "who", required: true}], handler: { args -> "Hello ${args.who}" }})
"#;

#[test]
fn a_client_of_the_typescript_sdk_over_both_transports() {
    let Some(sdk) = installed("npm") else { return };
    let place = folder(&[("server.harn", SERVED)]);
    let client = |arguments: &[&str]| {
        let mut node = Command::new("node");
        node.arg(data("client.mjs")).args(arguments).env("SDK", &sdk).current_dir(place.path());
        let ran = finish(node, b"");
        assert_eq!((ran.code, ran.out.as_str()), (0, "add\n3\ntrue\nnote 7\nHello Ada\n"), "{}", ran.shown());
    };
    client(&[env!("CARGO_BIN_EXE_harn"), "server.harn"]);
    let (_running, port) = start(|port| {
        let mut harn = command(&["serve", "mcp", "server.harn", "--transport", "http", "--bind"]);
        harn.arg(format!("127.0.0.1:{port}")).current_dir(place.path());
        harn
    });
    client(&[&format!("http://127.0.0.1:{port}/mcp")]);
}
