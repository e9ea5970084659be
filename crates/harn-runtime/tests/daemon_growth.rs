//! The cost of a daemon's snapshots while its history grows, and the complete restoration of the history.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use harn_system::{Capture, Layer, Memory, System};
use harn_value::Value;
use harn_vm::{Source, block_on, load};

/// Counts the bytes that are written to and read from files.
struct Counting {
    inner: Rc<Capture>,
    bytes: Cell<usize>,
    read: Cell<usize>,
}

impl Layer for Counting {
    fn inner(&self) -> &dyn System {
        &*self.inner
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let bytes = System::read(&*self.inner, path, limit)?;
        self.read.set(self.read.get() + bytes.len());
        Ok(bytes)
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

/// Runs a program with files in memory, and returns its output and the number of bytes written.
fn run(memory: &Rc<Memory>, text: &str) -> (String, usize) {
    let (output, written, _) = run_counted(memory, text);
    (output, written)
}

/// Like `run`, and also returns the number of bytes read.
fn run_counted(memory: &Rc<Memory>, text: &str) -> (String, usize, usize) {
    let inner = Rc::new(Capture::over(memory.clone()));
    let system = Rc::new(Counting { inner: inner.clone(), bytes: Cell::default(), read: Cell::default() });
    let vm = harn_runtime::vm_builder(system.clone()).global("argv", Value::list(Vec::new())).build();
    let source = Source { name: "daemon.harn".into(), text: text.into(), dir: "/project".into() };
    let Ok(program) = load(&vm, &source) else { panic!("{text}") };
    let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    assert!(outcome.result.is_ok(), "{:?} {}", outcome.result.err(), inner.errors());
    (inner.output(), system.bytes.get(), system.read.get())
}

/// Runs a loop that its timer wakes `turns` times, with a reply of two kilobytes each time.
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
        // With fewer turns, the whole history is part of the snapshot, which is rewritten completely.
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
    // A prompt, and for each turn a reply and the event that woke it; the last turn has no following event.
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

/// Runs a daemon with `turns` events and requests its snapshot after each; also returns the number of bytes read.
/// `by_look` is code that runs after each request.
fn looks(turns: usize, by_look: &str) -> (String, usize) {
    let program = format!(
        r#"llm_mock({{match: "*", text: "reply ".repeat(350)}})
        let d = daemon_spawn({{task: "Watch.", provider: "mock", persist_path: "/d", max_iterations: 10000, compaction: false}})
        var held = []
        for i in 0 to {turns} exclusive {{
          daemon_trigger(d, "event ${{i}}")
          while daemon_snapshot(d).queued_event_count > 0 {{ sleep(1ms) }}
          let seen = daemon_snapshot(d)
          {by_look}
        }}
        daemon_stop(d)
        println(daemon_snapshot(d).recorded_messages.count())"#
    );
    let (output, _, read) = run_counted(&Rc::new(Memory::new()), &program);
    (output, read)
}

#[test]
fn a_look_reads_nothing_that_was_seen_before() {
    let read: Vec<usize> = [100, 200, 400]
        .map(|turns| {
            let (output, read) = looks(turns, "");
            assert_eq!(output, format!("{}\n", 2 * turns + 2));
            read
        })
        .to_vec();
    // The history is read when it is first moved to a separate file, and not again.
    assert!(read[0] > 60_000 && read.iter().all(|bytes| *bytes == read[0]), "{read:?}");
}

#[test]
fn what_was_seen_stays_as_it_was_and_agrees_with_the_files() {
    let check = r#"
          require seen.recorded_messages.count() == 2 * i + 4
          require seen.visible_messages == seen.recorded_messages
          require seen.recorded_messages[2 * i + 2].content.contains("event ${i}")
          if i == 60 { write_file("/kept.json", json_stringify(seen)) }
          if i == 99 {
            let lines = read_file("/d/daemon.json.history").trim().split("\n").map({ line -> json_parse(line) })
            let file = json_parse(read_file("/d/daemon.json"))
            for key in ["recorded_messages", "transcript_events", "total_visible_texts"] {
              require lines.flat_map({ line -> line[key] }) + file[key] == seen[key]
            }
            require lines.map({ line -> line.total_text }).join("") + file.total_text == seen.total_text
            let kept = json_parse(read_file("/kept.json"))
            require kept.recorded_messages == seen.recorded_messages[0:124]
            require seen.total_text.starts_with(kept.total_text)
          }"#;
    let (output, _) = looks(100, check);
    assert_eq!(output, "202\n");
    // A value that the program holds does not change.
    let held = "if i == 50 { held = seen.recorded_messages }\n if i > 50 { require held.count() == 104 }";
    let (output, _) = looks(70, held);
    assert_eq!(output, "142\n");
}

/// A loop that is woken so often and compacts its conversation again and again, its messages and the files that it leaves.
fn long_lived(turns: usize) -> (Rc<Memory>, usize, String) {
    let memory = Rc::new(Memory::new());
    let program = format!(
        r#"let r = agent_loop("Watch.", nil, {{provider: "mock", daemon: true, wake_interval_ms: 1, persist_path: "/d.json",
          max_iterations: {turns}, compact_threshold: 2000, compact_keep_last: 2, compact_strategy: "truncate"}})
        let files = list_dir("/").filter({{ name -> name.starts_with("d.json") }})
        println("${{r.iterations}} ${{r.transcript.messages.count()}} ${{files.map({{ name -> stat("/" + name).size }}).sum()}} ${{files}}")"#
    );
    let (output, _) = run(&memory, &program);
    let parts: Vec<&str> = output.trim().splitn(4, ' ').collect();
    assert_eq!(parts[0], turns.to_string(), "{output}");
    let messages: usize = parts[1].parse().unwrap();
    let bytes: usize = parts[2].parse().unwrap();
    assert!(messages <= 4_200 && bytes < 3 << 20, "{output}");
    (memory, messages, parts[3].to_owned())
}

#[test]
fn the_history_of_a_daemon_is_bounded() {
    let (memory, messages, files) = long_lived(2_500);
    assert_eq!(files, "[d.json, d.json.history-2]");
    // It continues from the file with the other name, and the next time from the first one.
    let again = r#"
        let options = {provider: "mock", daemon: true, wake_interval_ms: 1, resume_path: "/d.json", persist_path: "/d.json",
          compact_threshold: 2000, compact_keep_last: 2, compact_strategy: "truncate"}
        let a = agent_loop("", nil, {...options, max_iterations: 1})
        let b = agent_loop("", nil, {...options, max_iterations: 1200})
        println("${a.transcript.messages.count()} ${a.iterations} ${b.iterations} ${b.transcript.messages.count() <= 4200}")
        println(list_dir("/").filter({ name -> name.starts_with("d.json") }))"#;
    let (output, _) = run(&memory, again);
    let (first, rest) = output.split_once(' ').unwrap();
    assert_eq!(rest, "2501 3701 true\n[d.json, d.json.history]\n");
    let more: usize = first.parse::<usize>().unwrap() - messages;
    assert!(more <= 2, "{output}");
}

#[test]
fn a_look_at_a_daemon_with_a_shortened_history_is_whole() {
    let program = r#"
        let d = daemon_spawn({task: "Watch.", provider: "mock", persist_path: "/d", max_iterations: 10000, compact_threshold: 2000,
          compact_keep_last: 2, compact_strategy: "truncate"})
        for i in 0 to 2300 exclusive {
          daemon_trigger(d, "event ${i}")
          if i % 50 == 49 {
            while daemon_snapshot(d).queued_event_count > 0 { sleep(5ms) }
            llm_mock_clear()
          }
          if i % 250 == 249 {
            let seen = daemon_snapshot(d)
            let all = seen.recorded_messages
            require all.count() <= 4200
            require all.last().role == "assistant" && all[all.count() - 2].content.contains("event ${i}")
            let events = all.filter({ m -> m.role == "user" && m.content.contains("event ") }).map({ m -> to_int(m.content.split("event ")[1].split("\n")[0]) })
            require events == (i - events.count() + 1 to i).to_list()
            require seen.visible_messages.last() == all.last() && seen.visible_messages.count() < 200
          }
        }
        println(daemon_snapshot(d).total_iterations)
        daemon_stop(d)
        let again = daemon_resume("/d")
        println(daemon_snapshot(again).recorded_messages.count() <= 4200)
        daemon_stop(again)"#;
    let (output, _) = run(&Rc::new(Memory::new()), program);
    assert_eq!(output, "2301\ntrue\n");
}
