//! Reading, checking, compiling and starting take linear time, for programs of any shape.
//!
//! The tests compare processor time: input of four times the size may take about four times as long; quadratic work
//! would take sixteen times as long. The minimum of several runs is used.

#![cfg(unix)]

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::common::{command, every_case, finish, folder};
use harn_strict_servers::Request;

/// A ratio that is no longer linear.
const TOO_MUCH: u32 = 9;

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(|i| line(i) + "\n").collect()
}

fn listed(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(", ")
}

/// Returns the minimum processor time of several runs, which concurrent processes affect less than the elapsed time.
fn cost(args: &[&str], text: &str) -> Duration {
    let scratch = folder(&[("main.harn", text)]);
    let once = || {
        let harn = command(args);
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "\"$@\"; code=$?; echo; times; exit $code", "sh"])
            .arg(harn.get_program())
            .args(harn.get_args());
        for (name, value) in harn.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.current_dir(scratch.path());
        let ran = finish(shell, b"");
        assert!(!ran.err.contains("panicked") && ran.code < 128, "{}", &ran.err[..ran.err.len().min(2000)]);
        // The last line is the time of the shell's child processes: `0m1.250000s 0m0.030000s`.
        let times = ran.out.lines().last().unwrap_or_default().split_whitespace();
        times.map(|time| seconds(time).unwrap_or_else(|| panic!("no time: {}", ran.shown()))).sum()
    };
    (0..2).map(|_| once()).min().unwrap_or_default()
}

/// Parses a duration as printed by shells.
fn seconds(text: &str) -> Option<Duration> {
    let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
    Some(Duration::from_secs_f64(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?))
}

/// Checks that a program of four times the size takes about four times as long.
fn is_linear(name: &str, args: &[&str], size: usize, text: impl Fn(usize) -> String) {
    let start = cost(&["run", "main.harn"], "");
    // Concurrent processes can distort a measurement, but rarely several in a row.
    let mut ratios = Vec::new();
    let linear = (0..8).any(|_| {
        let [small, large] = [size, 4 * size].map(|size| cost(args, &text(size)).saturating_sub(start));
        // Durations close to zero are not meaningful.
        let ratio = large.as_secs_f64() / small.as_secs_f64().max(0.02);
        ratios.push(ratio);
        ratio < f64::from(TOO_MUCH)
    });
    assert!(linear, "{name}, {args:?}: four times as much cost {ratios:.1?} times the time");
}

/// The shapes and commands that are measured unless `HARN_EVERY_CASE` is set. Verifying the fixes of unknown names
/// takes the most time and has its own limit, so it is not included.
const SAMPLE: [(&str, &str); 4] =
    [("lets", "check"), ("parameters", "lint"), ("unknown names", "run"), ("unknown calls", "check")];

#[test]
fn declarations_and_unknown_names_take_linear_time() {
    type Shape = (&'static str, usize, fn(usize) -> String);
    let shapes: [Shape; 6] = [
        ("lets", 4_000, |n| lines(n, |i| format!("let a{i} = {i}"))),
        ("parameters", 4_000, |n| format!("fn f({}) {{ 1 }}\n", listed(n, |i| format!("p{i} = 1")))),
        ("fields", 2_000, |n| format!("struct S {{ {} }}\n", listed(n, |i| format!("f{i}: int")))),
        ("variants", 2_000, |n| format!("enum E {{ {} }}\n", listed(n, |i| format!("V{i}")))),
        ("unknown names", 1_500, |n| {
            lines(n, |i| format!("let known{i} = 1")) + &lines(n, |i| format!("println(unknwon{i})"))
        }),
        ("unknown calls", 1_500, |n| {
            lines(n, |i| format!("fn known{i}() {{ 1 }}")) + &lines(n, |i| format!("unknwon{i}()"))
        }),
    ];
    for (name, size, text) in shapes {
        for verb in ["check", "lint", "run"] {
            if every_case() || SAMPLE.contains(&(name, verb)) {
                is_linear(name, &[verb, "main.harn"], size, text);
            }
        }
    }
}

#[test]
fn starting_many_tasks_takes_linear_time() {
    for (name, program) in [
        ("parallel", "println((parallel COUNT { 1 }).len())"),
        (
            "spawn",
            "let all = (1 to COUNT).map({ i -> spawn { i } }).to_list()\nprintln(all.map(await).sum())",
        ),
    ] {
        is_linear(name, &["run", "main.harn"], 10_000, |n| program.replace("COUNT", &n.to_string()));
    }
}

/// A list that grows by one item is not copied, in any kind of block.
#[test]
fn lists_grow_in_linear_time_in_every_block() {
    let grow = "var s = []\n  var k = 0\n  while k < COUNT {\n    s = s.push(k)\n    k += 1\n  }\n  println(s.len())";
    for (name, before, after) in [
        ("try", "try {\n  ", "\n} catch (e) { println(e) }"),
        ("finally", "try {\n  ", "\n} finally { print(\"\") }"),
        ("retry", "retry 2 {\n  ", "\n}"),
        ("deadline", "deadline 1h {\n  ", "\n}"),
        ("defer", "fn f() {\n  defer { print(\"\") }\n  ", "\n}\nf()"),
    ] {
        is_linear(&format!("push in {name}"), &["run", "main.harn"], 40_000, |n| {
            format!("{before}{}{after}", grow.replace("COUNT", &n.to_string()))
        });
    }
}

/// A loop sends its history with each request. All its other work per turn stays constant, even if the history exceeds
/// the compaction threshold and cannot be compacted enough.
#[test]
fn turns_of_a_loop_take_linear_time() {
    let program = "let tools = tool_define(tool_registry(), \"look\", \"Looks\", {parameters: {n: \"int\"}, handler: { args -> \"seen\" }})\n\
        for n in 1 to COUNT { llm_mock({tool_calls: [{name: \"look\", arguments: {n: n}}]}) }\n\
        let r = agent_loop(\"go \".repeat(LONG), nil, {provider: \"mock\", tool_format: \"native\", tools: tools, max_iterations: COUNT,\n  \
          loop_detect_warn: 0, compact_keep_first: 1, compact_threshold: 10000})\nprintln(r.iterations)\n";
    for long in ["1", "20000"] {
        is_linear(&format!("turns after {long} words"), &["run", "main.harn"], 100, |n| {
            program.replace("COUNT", &n.to_string()).replace("LONG", long)
        });
    }
}

/// Starts a server that answers each request with a call of the tool `look` over persistent connections. Returns its
/// address.
fn server_that_calls() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_with_calls(&stream));
        }
    });
    address
}

fn answer_with_calls(mut stream: &TcpStream) {
    let mut reader = BufReader::new(stream);
    for number in 0.. {
        if Request::read(&mut reader).is_err() {
            return;
        }
        let call = format!(
            r#"{{"id": "call_{number}", "type": "function", "function": {{"name": "look", "arguments": "{{\"n\": {number}}}"}}}}"#
        );
        let reply = format!(
            r#"{{"choices": [{{"message": {{"content": "", "tool_calls": [{call}]}}, "finish_reason": "tool_calls"}}]}}"#
        );
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", reply.len());
        if stream.write_all((head + &reply).as_bytes()).is_err() {
            return;
        }
    }
}

/// The same over HTTP, where each request contains the history: messages of earlier requests are not serialized again.
#[test]
fn turns_of_a_loop_over_http_take_linear_time() {
    let program = r#"let tools = tool_define(tool_registry(), "look", "Looks", {parameters: {n: "int"}, handler: { args -> "seen ".repeat(100) }})
let r = agent_loop("go", nil, {provider: "local", model: "gpt-4o", base_url: "URL", tool_format: "native", tools: tools,
  max_iterations: COUNT, loop_detect_warn: 0, stream: false})
println(r.iterations)
"#;
    let program = program.replace("URL", &server_that_calls());
    is_linear("turns over HTTP", &["run", "main.harn"], 100, |n| program.replace("COUNT", &n.to_string()));
}

/// Starts a server that streams as many pieces as the prompt requests. Returns its address.
fn server_that_streams() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let Ok(request) = Request::read(&mut BufReader::new(&stream)) else { continue };
            let messages = request.body["messages"].as_array().unwrap();
            let count: usize = messages.last().unwrap()["content"].as_str().unwrap().parse().unwrap();
            let piece = |n: usize| {
                format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"piece {n} \"}}}}]}}\n\n")
            };
            let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let body: String = (0..count).map(piece).collect();
            // The client may be gone.
            let _ = stream.write_all((head.to_owned() + &body + end).as_bytes());
        }
    });
    address
}

/// Each piece of a reply takes constant time, with and without a limit, whether the program or only the runtime reads
/// it.
#[test]
fn pieces_of_a_stream_take_linear_time() {
    let url = server_that_streams();
    for (name, call) in [
        ("llm_call", "println(len(llm_call(\"COUNT\", nil, O).text))"),
        (
            "on_delta",
            "var n = 0\nllm_call(\"COUNT\", nil, {...O, on_delta: { piece -> n += 1 }})\nprintln(n)",
        ),
        ("llm_stream", "var n = 0\nfor piece in llm_stream(\"COUNT\", nil, O) { n += 1 }\nprintln(n)"),
        ("agent_loop", "println(len(agent_loop(\"COUNT\", nil, O).text))"),
    ] {
        is_linear(&format!("pieces of {name}"), &["run", "main.harn"], 5_000, |n| {
            format!(
                "llm_budget(1.0)\nlet O = {{provider: \"local\", model: \"m\", base_url: \"{url}\", timeout: 60s}}\n{}\n",
                call.replace("COUNT", &n.to_string())
            )
        });
    }
}

/// A history is stored once, however many turns have sent it: 800 copies would take 300 MB.
#[test]
fn a_long_loop_holds_its_history_once() {
    let program = "let tools = tool_define(tool_registry(), \"look\", \"Looks\", {parameters: {n: \"int\"}, handler: { args -> \"seen \".repeat(150) }})\n\
        for n in 1 to 800 { llm_mock({tool_calls: [{name: \"look\", arguments: {n: n}}]}) }\n\
        let r = agent_loop(\"go\", nil, {provider: \"mock\", tool_format: \"native\", tools: tools, max_iterations: 800, loop_detect_warn: 0})\n\
        println(r.iterations)\n";
    let scratch = folder(&[("main.harn", program)]);
    let mut harn = command(&["run", "--max-memory", "60M", "main.harn"]);
    harn.current_dir(scratch.path());
    let ran = finish(harn, b"");
    assert_eq!((ran.code, ran.out.as_str()), (0, "800\n"), "{}", ran.shown());
}

/// Agents that run one after another do not leak memory: 3,000 tasks of 30 KB would take 90 MB.
#[test]
fn agents_in_a_row_leave_nothing_behind() {
    let program = "for i in 1 to 3000 {\n  llm_mock({text: \"done\"})\n  \
        agent_loop(\"x\".repeat(30000), nil, {provider: \"mock\"})\n  llm_mock_clear()\n}\nprintln(\"flat\")\n";
    let scratch = folder(&[("main.harn", program)]);
    let mut harn = command(&["run", "--max-memory", "60M", "main.harn"]);
    harn.current_dir(scratch.path());
    let ran = finish(harn, b"");
    assert_eq!((ran.code, ran.out.as_str()), (0, "flat\n"), "{}", ran.shown());
}
