//! The memory of an agent loop while it waits for its reply, measured by counting allocations, so that the result is
//! the same on every machine.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use crate::common::run_with;

/// Number of concurrently waiting loops.
const LOOPS: usize = 60;

/// Reads a request and returns the length of its body.
fn request(stream: &mut TcpStream) -> usize {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let mut lines = head.lines();
            let length = lines.find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap();
            if body.len() >= length {
                return length;
            }
        }
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "the request breaks off");
        bytes.extend_from_slice(&buffer[..count]);
    }
}

/// Runs loops that all wait at the same time; returns the peak number of allocated bytes, and the size of a request.
fn held(loops: usize, statements: &str, options: &str) -> (u64, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut size = 0;
        // The server does not reply before it has received all requests.
        let mut waiting: Vec<TcpStream> = (0..loops)
            .map(|_| {
                let mut stream = listener.accept().unwrap().0;
                size = request(&mut stream);
                stream
            })
            .collect();
        let body = r#"{"choices": [{"message": {"content": "done"}, "finish_reason": "stop"}]}"#;
        let reply = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        waiting.iter_mut().for_each(|stream| stream.write_all(reply.as_bytes()).unwrap());
        size
    });
    let program = format!(
        r#"{statements}
let done = parallel {loops} {{ n ->
  agent_loop("Look around.", nil, {{provider: "local", model: "gpt-4o", tool_format: "native", llm_retries: 0,
    timeout: 600, stream: false, max_iterations: 1{options}}}).iterations
}}
println(done.all({{ n -> n == 1 }}))"#
    );
    let memory = allocation_counter::measure(|| {
        let ran = run_with("main.harn", &program, Path::new("/"), &[("LOCAL_LLM_BASE_URL", &address)], None);
        assert_eq!((ran.output.as_str(), ran.error), ("true\n", None), "{}", ran.errors);
    });
    (memory.bytes_max, server.join().unwrap())
}

/// Returns the bytes that each additional loop allocates, and the size of its request.
fn each(statements: &str, options: &str) -> (u64, u64) {
    let (one, size) = held(1, statements, options);
    let many = held(LOOPS + 1, statements, options).0;
    (many.saturating_sub(one) / LOOPS as u64, size as u64)
}

#[test]
fn a_loop_that_waits_holds_little() {
    let (bytes, _) = each("", "");
    assert!(bytes < 64 << 10, "{} KiB", bytes >> 10);
}

#[test]
fn tools_are_shared_by_loops_that_wait() {
    let tools = r#"
var many = tool_registry()
for n in 0 to 21 exclusive {
  many = tool_define(many, "tool_${n}", "Finds what the project holds about a subject and gives the places, the best ones first.", {
    parameters: {
      query: {type: "string", description: "What is looked for: a word, a name or a whole question."},
      folder: {type: "string", description: "The folder below which is looked; the whole project by default."},
      limit: {type: "integer", description: "How many places are given at most, 20 by default."},
    },
    handler: { args -> "nothing" },
  })
}
let shared = many"#;
    let (bytes, _) = each(tools, ", tools: shared");
    assert!(bytes < 100 << 10, "{} KiB", bytes >> 10);
}

#[test]
fn a_history_is_shared_by_loops_that_wait() {
    let history = r#"
let words = "What is seen there, as one line of some length that a tool might well give. ".repeat(25)
var told = []
for n in 0 to 20 exclusive {
  told = told + [{role: "user", content: "Question ${n}: ${words}"}, {role: "assistant", content: "Answer ${n}: ${words}"}]
}
let before = told"#;
    let (bytes, size) = each(history, ", messages: before");
    assert!(bytes * 2 < size * 5, "{} KiB for a request of {} KiB", bytes >> 10, size >> 10);
}
