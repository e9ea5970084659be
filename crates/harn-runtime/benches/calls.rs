//! Measures the cost of a model call for a program when the mock answers: the VM, the conversion of values and all
//! layers of the call, without network. Run with `cargo bench -p harn-runtime`.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a bench")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use harn_vm::{Source, block_on, load};

const CALLS: usize = 5_000;

/// Runs a program that makes all its calls; returns the duration, including start-up.
fn run(text: &str) -> Duration {
    let start = Instant::now();
    let vm = harn_runtime::vm_builder(std::rc::Rc::new(harn_system::Memory::new())).build();
    let source = Source { name: "calls.harn".into(), text: text.into(), dir: PathBuf::from("/") };
    let program = load(&vm, &source).unwrap_or_else(|e| panic!("{}", e.canonical(text)));
    let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    if let Err(error) = &outcome.result {
        panic!("{}", harn_vm::uncaught(&vm, error).0.message);
    }
    start.elapsed()
}

fn main() {
    let programs = [
        ("llm_call", r#"llm_call("Hello world", "Be kind.", {provider: "mock"})"#),
        (
            "llm_call_structured",
            r#"llm_call_structured("Hello", {type: "object", required: ["a"]}, {provider: "mock", model: "gpt-4o"})"#,
        ),
        ("llm_stream", r#"for piece in llm_stream("Hello world", nil, {provider: "mock"}) { words += 1 }"#),
    ];
    println!("{CALLS} calls from a program, answered by the mock");
    for (name, call) in programs {
        let mocked = "llm_mock({match: \"Hello\", text: \"{\\\"a\\\": 1}\"})";
        let setup = if name == "llm_call_structured" { mocked } else { "" };
        let text = format!("{setup}\nvar words = 0\nfor n in 0 to {CALLS} exclusive {{\n  {call}\n}}\n");
        let best = (0..3).map(|_| run(&text)).min().unwrap();
        println!(
            "  {name:20} {:7.0} calls a second, {:5.1} µs each",
            CALLS as f64 / best.as_secs_f64(),
            best.as_secs_f64() * 1e6 / CALLS as f64
        );
    }
}
