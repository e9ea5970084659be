//! What the snapshots of a daemon cost while its history grows, and that all of it comes back.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use harn_system::{Capture, Layer, Memory, System};
use harn_value::Value;
use harn_vm::{Source, block_on, load};

/// Counts what is written to files.
struct Counting {
    inner: Rc<Capture>,
    bytes: Cell<usize>,
}

impl Layer for Counting {
    fn inner(&self) -> &dyn System {
        &*self.inner
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.bytes.set(self.bytes.get() + bytes.len());
        System::replace(&*self.inner, path, bytes)
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.bytes.set(self.bytes.get() + bytes.len());
        System::append(&*self.inner, path, bytes)
    }
}

/// Runs a program over some files, and returns what it printed and the bytes that it wrote to them.
fn run(memory: &Rc<Memory>, text: &str) -> (String, usize) {
    let inner = Rc::new(Capture::over(memory.clone()));
    let system = Rc::new(Counting { inner: inner.clone(), bytes: Cell::default() });
    let vm = harn_runtime::vm_builder(system.clone()).global("argv", Value::list(Vec::new())).build();
    let source = Source { name: "daemon.harn".into(), text: text.into(), dir: "/project".into() };
    let Ok(program) = load(&vm, &source) else { panic!("{text}") };
    let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    assert!(outcome.result.is_ok(), "{:?} {}", outcome.result.err(), inner.errors());
    (inner.output(), system.bytes.get())
}

/// A loop that is woken by its timer so often, each time by a reply of two kilobytes.
fn rests(turns: usize, options: &str) -> (Rc<Memory>, usize) {
    let memory = Rc::new(Memory::new());
    let program = format!(
        r#"llm_mock({{match: "*", text: "reply ".repeat(350)}})
        let r = agent_loop("Watch.", nil, {{provider: "mock", daemon: true, wake_interval_ms: 1, persist_path: "/d.json",
          max_iterations: {turns}, {options}}})
        println(r.iterations)"#
    );
    let (output, bytes) = run(&memory, &program);
    assert_eq!(output, format!("{turns}\n"));
    (memory, bytes)
}

#[test]
fn what_is_written_grows_as_the_history_does() {
    for options in ["", "compaction: false"] {
        // Below this all of it stands in the snapshot, which is written whole.
        let bytes: Vec<usize> = [100, 200, 400].map(|turns| rests(turns, options).1).to_vec();
        for pair in bytes.windows(2) {
            assert!(pair[1] * 10 < pair[0] * 25, "{options}: {bytes:?}");
        }
    }
}

#[test]
fn a_long_history_comes_back_whole() {
    let (memory, _) = rests(120, "compaction: false");
    let more = r#"
        llm_mock({text: "and on"})
        let all = agent_loop("", nil, {provider: "mock", daemon: true, wake_interval_ms: 1, resume_path: "/d.json", max_iterations: 1, compaction: false})
        println([all.transcript.messages.count(), all.transcript.messages[0].content, all.iterations])
        println(len(llm_mock_calls()[0].messages))
        println(json_parse(read_file("/d.json")).earlier.file)
        let again = agent_loop("", nil, {provider: "mock", daemon: true, wake_interval_ms: 1, resume_path: "/d.json", max_iterations: 1, compaction: false})
        println(again.transcript.messages.count() - all.transcript.messages.count())
        println(again.text.starts_with("reply reply") && again.text.contains("and on"))"#;
    let (output, _) = run(&memory, more);
    // A prompt, and for each turn a reply and what woke it; the last turn was not woken from.
    assert_eq!(output, "[241, Watch., 121]\n240\nd.json.history\n1\ntrue\n");
}

#[test]
fn a_history_that_is_damaged_is_told() {
    let (memory, _) = rests(120, "");
    let resume = r#"
        fn go() { return to_string(unwrap_err(try { agent_loop("", nil, {provider: "mock", daemon: true, resume_path: "/d.json"}) })) }
        let text = read_file("/d.json.history")
        // What a process has added that died before its snapshot said so is not looked at.
        write_file("/d.json.history", text + "{\"half")
        println(agent_loop("", nil, {provider: "mock", daemon: true, resume_path: "/d.json", max_iterations: 1}).iterations)
        write_file("/d.json.history", text.substring(0, 100))
        println(go())
        write_file("/d.json.history", "x".repeat(len(text) * 2))
        println(go())
        delete_file("/d.json.history")
        println(go())"#;
    let (output, _) = run(&memory, resume);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], "121", "{output}");
    assert!(
        lines[1].starts_with("agent_loop: resume_path: cannot read /d.json.history: it has 100 bytes"),
        "{output}"
    );
    assert!(
        lines[2].starts_with("agent_loop: resume_path: cannot read /d.json.history: expected value"),
        "{output}"
    );
    assert!(lines[3].starts_with("agent_loop: resume_path: cannot read /d.json.history: "), "{output}");
}
