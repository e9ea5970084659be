//! Servers and clients of the official MCP SDKs over both transports, and loops with third-party model servers that
//! fail many requests.
//!
//! `make test-real-server` installs them and runs these tests. Without them, the tests print a note and pass.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Ran, command, finish, folder};

/// A server that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the path of a program installed by `make test-real-server`, if it exists.
fn installed(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os("HARN_REAL_SERVERS").map(|dir| Path::new(&dir).join(name));
    let found = found.filter(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: {name} is not installed; `make test-real-server` installs it");
    }
    found
}

/// Returns the Python interpreter with the SDK, if it is installed.
fn python() -> Option<PathBuf> {
    installed("mcp/bin/python")
}

fn script() -> PathBuf {
    data("server.py")
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_server").join(name)
}

/// Starts a server and waits until it listens on its port.
fn start(command: impl FnOnce(u16) -> Command) -> (Running, u16) {
    start_to(command, Stdio::null())
}

fn start_with_log(command: impl FnOnce(u16) -> Command, log: &Path) -> (Running, u16) {
    start_to(command, std::fs::File::create(log).unwrap().into())
}

fn start_to(command: impl FnOnce(u16) -> Command, out: Stdio) -> (Running, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = command(port);
    server.stdin(Stdio::null()).stdout(out).stderr(Stdio::null());
    let mut running = Running(server.spawn().unwrap());
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(running.0.try_wait().unwrap().is_none(), "the server ended");
        assert!(started.elapsed() < Duration::from_secs(300), "the server does not listen");
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

/// Calls the tools of the server that demonstrates all features of the protocol.
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
    let (_running, port) = serve(&place);
    client(&[&format!("http://127.0.0.1:{port}/mcp")]);
}

fn serve(place: &tempfile::TempDir) -> (Running, u16) {
    start(|port| {
        let mut harn = command(&["serve", "mcp", "server.harn", "--transport", "http", "--bind"]);
        harn.arg(format!("127.0.0.1:{port}")).current_dir(place.path());
        harn
    })
}

#[test]
fn a_client_of_the_python_sdk_over_both_transports() {
    let Some(interpreter) = python() else { return };
    let place = folder(&[("server.harn", SERVED)]);
    let client = |arguments: &[&str]| {
        let mut python = Command::new(&interpreter);
        python.arg(data("client.py")).args(arguments).current_dir(place.path());
        let ran = finish(python, b"");
        assert_eq!((ran.code, ran.out.as_str()), (0, "add\n3\ntrue\nnote 7\nHello Ada\n"), "{}", ran.shown());
    };
    client(&[env!("CARGO_BIN_EXE_harn"), "server.harn"]);
    let (_running, port) = serve(&place);
    client(&[&format!("http://127.0.0.1:{port}/mcp")]);
}

const SIGNED_IN: &str = r#"
let c = mcp_connect("URL", nil, {timeout: 20s})
println(mcp_call(c, "greet", {name: "Ada"}))
mcp_disconnect(c)
"#;

/// The example server of the TypeScript SDK with its authorization server: discovery, registration, PKCE, a token bound
/// to this server, the stream of server messages and the end of the session.
#[test]
fn a_server_of_the_typescript_sdk_asks_for_a_sign_in() {
    let name = "npm/node_modules/@modelcontextprotocol/sdk/dist/esm/examples/server/simpleStreamableHttp.js";
    let Some(program) = installed(name) else { return };
    let authority = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let place = folder(&[]);
    let log = place.path().join("server.log");
    let mut node = Command::new("node");
    node.arg(program).args(["--oauth", "--oauth-strict"]).env("MCP_AUTH_PORT", authority.to_string());
    let (_running, port) = start_with_log(
        |port| {
            node.env("MCP_PORT", port.to_string());
            node
        },
        &log,
    );
    let url = format!("http://localhost:{port}/mcp");
    std::fs::write(place.path().join("main.harn"), SIGNED_IN.replace("URL", &url)).unwrap();
    let harn = |arguments: &[&str]| {
        let mut harn = command(arguments);
        harn.current_dir(place.path()).env("HOME", place.path()).env_remove("XDG_STATE_HOME");
        harn
    };
    let refused = finish(harn(&["run", "main.harn"]), b"");
    assert!(refused.code == 1 && refused.err.contains("harn mcp login"), "{}", refused.shown());

    let mut login = harn(&["mcp", "login", &url]);
    let mut login = login.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(login.stderr.take().unwrap()).lines();
    let address =
        lines.map(Result::unwrap).find(|line| line.starts_with("http")).expect("an address to open");
    // The authorization server approves immediately and redirects the browser back.
    let visit = finish(harn(&["run", "-e", &format!("println(http_get({address:?}).status)")]), b"");
    assert_eq!((visit.code, visit.out.as_str()), (0, "200\n"), "{}", visit.shown());
    assert!(login.wait().unwrap().success());

    let ran = finish(harn(&["run", "main.harn"]), b"");
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hello, Ada!\n"), "{}", ran.shown());
    let said = std::fs::read_to_string(log).unwrap();
    for line in ["Establishing new SSE stream", "session termination request"] {
        assert!(said.contains(line), "{said}");
    }
}

/// Starts a model server that replies from a file, and then fails 30 of 100 requests: with status 500 or 429, with a
/// body that is not JSON, or by closing the connection.
fn failing_server() -> Option<(Running, u16)> {
    let program = installed("npm/node_modules/.bin/llmock")?;
    let started = start(|port| {
        let mut server = Command::new(program);
        server.args(["--strict", "--chunk-size", "5", "--log-level", "silent", "--port", &port.to_string()]);
        server.args(["--chaos-drop", "0.1", "--chaos-malformed", "0.1", "--chaos-disconnect", "0.07"]);
        server.args(["--chaos-ratelimit", "0.03", "--fixtures"]).arg(data("chaos.json"));
        server
    });
    Some(started)
}

/// Runs the conversations of `chaos.harn` with a server and an optional gateway in front of it.
fn converse(port: u16, gateway: Option<u16>) -> Ran {
    let base = format!("http://127.0.0.1:{port}");
    let mut harn = command(&["run"]);
    harn.arg(data("chaos.harn")).args(["--", &base, "8"]);
    if let Some(port) = gateway {
        harn.arg(format!("http://127.0.0.1:{port}"));
    }
    let place = folder(&[]);
    harn.current_dir(place.path()).env("HOME", place.path());
    for name in ["ANTHROPIC", "OPENAI", "OPENROUTER", "GROQ", "GEMINI", "AZURE_OPENAI"] {
        harn.env(format!("{name}_API_KEY"), "sk-gateway-1234");
    }
    for name in ["AZURE_OPENAI_ENDPOINT", "BEDROCK_BASE_URL", "LOCAL_LLM_BASE_URL"] {
        harn.env(name, &base);
    }
    harn.env("AWS_ACCESS_KEY_ID", "AKID").env("AWS_SECRET_ACCESS_KEY", "secret");
    let ran = finish(harn, b"");
    assert_eq!(ran.code, 0, "{}", ran.shown());
    eprintln!("{}", ran.out.trim());
    ran
}

/// Returns the numbers of a line such as `input 12 of 12`: the amount that Harn recorded (or the failures), and the
/// amount that the server sent.
fn counted(ran: &Ran, name: &str) -> (u64, u64) {
    let number = |text: &str| text.parse::<u64>().ok();
    let read = |line: &str| {
        let (own, all) = line.strip_prefix(name)?.trim().split_once(" of ")?;
        Some((number(own)?, number(all)?))
    };
    ran.out.lines().find_map(read).unwrap_or_else(|| panic!("{}", ran.shown()))
}

/// Returns the number of reported failures with one of these reasons.
fn reported(ran: &Ran, reasons: &[&str]) -> u64 {
    let is_one = |line: &&str| reasons.iter().any(|reason| line.contains(&format!("failed ({reason})")));
    u64::try_from(ran.err.lines().filter(is_one).count()).unwrap()
}

/// Checks that every loop called its tools once and ended with its answer.
fn assert_finished(ran: &Ran) {
    let wrong = |line: &str| line.contains(": called ") || line.contains(": ended ");
    assert!(!ran.out.lines().any(wrong), "{}", ran.shown());
}

/// No call is lost or repeated, each failure is reported, and the recorded usage matches the server's record.
#[test]
fn loops_over_a_server_that_fails_a_third_of_its_requests() {
    let Some((_server, port)) = failing_server() else { return };
    let ran = converse(port, None);
    assert_finished(&ran);
    for name in ["input", "output"] {
        let (own, sent) = counted(&ran, name);
        assert_eq!(own, sent, "{}", ran.shown());
    }
    let (failures, _) = counted(&ran, "failures");
    assert!(failures > 20, "{}", ran.shown());
    assert_eq!(reported(&ran, &["server_error", "rate_limit", "network_error"]), failures, "{}", ran.shown());
}

/// If its server sends a response that is not a stream, the gateway answers `/chat/completions` with a complete stream
/// without content and usage. Such a reply is retried like a failure, so no loop ends with it; the usage of its prompt
/// is estimated.
#[test]
fn loops_over_a_gateway_whose_server_fails_a_third_of_its_requests() {
    let Some(program) = installed("venv/bin/litellm") else { return };
    let Some((_server, port)) = failing_server() else { return };
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../harn-llm/tests/real_server/gateway.yaml");
    let (_gateway, gateway) = start(|own| {
        let mut gateway = Command::new(program);
        gateway.args(["--host", "127.0.0.1", "--port", &own.to_string(), "--config"]).arg(config);
        gateway.env("UPSTREAM", format!("http://127.0.0.1:{port}/v1"));
        gateway.env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("LITELLM_TELEMETRY", "False");
        gateway
    });
    let ran = converse(port, Some(gateway));
    assert_finished(&ran);
    let (failures, _) = counted(&ran, "failures");
    let empty = reported(&ran, &["empty"]);
    let told = empty + reported(&ran, &["server_error", "rate_limit", "network_error"]);
    assert!(failures > 5 && told <= failures, "{told} {}", ran.shown());
    let ((input, sent_input), (output, sent_output)) = (counted(&ran, "input"), counted(&ran, "output"));
    assert_eq!(output, sent_output, "{}", ran.shown());
    assert!(input >= sent_input && input - sent_input <= 400 * empty, "{empty} {}", ran.shown());
}
