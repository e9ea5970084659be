//! Memory use after random work of all kinds: repetition does not increase it, and none remains after the program has
//! ended.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use harn_system::{Layer, Memory, System};
use harn_value::memory::{program_thread, used_by_thread};
use harn_vm::{Source, block_on, load};

/// Functions that do not leak memory.
const WORK: &str = r#"
gen fn count(n) { for i in 1 to n { emit "v".repeat(i) } }
struct Point { x: int, y: int }
fn lists() { var xs = []; for n in 1 to 200 { xs = xs + [{n: n, s: "x".repeat(n)}] }; assert(xs.sort_by({ x -> -x.n })[0].n == 200) }
fn closures() { var c = 0; let add = { -> c = c + 1 }; for n in 1 to 50 { add() }; assert(c == 50) }
fn cycles() { var f = nil; let text = "y".repeat(1000); f = { -> [f, text] }; assert(f() != nil) }
fn tasks() { let t = spawn { "y".repeat(2000) }; assert(await(t) == "y".repeat(2000)) }
fn channels() { let ch = channel("c", 10); let t = spawn { for n in 1 to 20 { send(ch, "m".repeat(n)) }; close_channel(ch) }; var n = 0; for m in ch { n = n + m.len() }; await(t); assert(n == 210) }
fn generators() { var n = 0; for v in count(30) { n = n + v.len() }; let half = count(30); assert(half.next() != nil && n == 465) }
fn parallels() { assert(parallel each [1, 2, 3, 4] { n -> sleep(1ms); "z".repeat(n * 100) }.len() == 4) }
fn data() { let d = json_parse(json_stringify({a: [1, 2, {b: "c".repeat(300)}]})); assert(regex_match("c+", d.a[2].b) != nil); assert(Point {x: 1, y: 2}.x == 1) }
fn errors() { let e = try { throw {category: "x", message: "m".repeat(200)} } catch e { e }; assert(e.category == "x") }
fn calls() { llm_mock({text: "reply ".repeat(50)}); assert(llm_call("ask", nil, {provider: "mock"}).text.len() > 100); llm_mock_clear() }
fn streams() { llm_mock({text: "a reply of words"}); var text = ""; for piece in llm_stream("ask", nil, {provider: "mock"}) { text = text + to_string(piece) }; llm_mock_clear() }
fn sessions() { let s = agent_session_open("s"); for n in 1 to 20 { agent_session_inject(s, {role: "user", content: "c".repeat(200)}) }; assert(agent_session_snapshot(s).messages.len() == 20); agent_session_close(s) }
fn loops() { let s = agent_session_open("l"); for n in 1 to 3 { agent_loop("go", nil, {provider: "mock", session_id: s}) }; agent_session_close(s); llm_mock_clear() }
fn workers() { let w = spawn_agent({task: "One", node: {mode: "llm", model_policy: {provider: "mock"}}, wait: true}); close_agent(w); llm_mock_clear() }
"#;

/// Names of these functions, except those that run once at the start: workers store snapshots in files, which are in
/// memory here, and cyclic values are only collected from 32 MiB on.
const KINDS: [&str; 12] = [
    "lists",
    "closures",
    "tasks",
    "channels",
    "generators",
    "parallels",
    "data",
    "errors",
    "calls",
    "streams",
    "sessions",
    "loops",
];

/// Bytes of lazily created tables and of buffers that grow by doubling.
const TOLERANCE: isize = 64 << 10;

/// Bytes that a round may add: counters, and events of `agent_trace`, of which the last 4,096 are kept, as text of about 150 bytes.
/// A worker that stayed in memory would be 35 KiB, a conversation more.
const PER_ROUND: isize = 3 << 10;

/// Records the memory in use at each printed line.
struct Scale {
    inner: Memory,
    seen: RefCell<Vec<isize>>,
}

impl Layer for Scale {
    fn inner(&self) -> &dyn System {
        &self.inner
    }

    fn write_out(&self, _: &str) -> io::Result<()> {
        self.seen.borrow_mut().push(used_by_thread());
        Ok(())
    }
}

/// Runs a program, and returns the memory in use at each printed line.
fn run(main: &str) -> Vec<isize> {
    let system = Rc::new(Scale { inner: Memory::new(), seen: RefCell::new(Vec::with_capacity(64)) });
    let vm = harn_runtime::vm_builder(system.clone()).build();
    let source = Source { name: "work.harn".into(), text: format!("{WORK}{main}"), dir: "/project".into() };
    let Ok(program) = load(&vm, &source) else { panic!("{main}") };
    let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    assert!(outcome.result.is_ok(), "{main}: {:?}", outcome.result.err());
    system.seen.take()
}

/// Returns a random selection of kinds in random order.
fn selection(seed: u64) -> Vec<&'static str> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    (0..4 + next() % 8).map(|_| KINDS[next() % KINDS.len()]).collect()
}

#[test]
fn random_work_leaves_no_memory_behind() {
    program_thread();
    let every: String = KINDS.iter().map(|kind| format!("{kind}()\n")).collect();
    // Create the tables that a process creates once.
    run(&format!("workers()\ncycles()\n{every}"));
    for seed in 1..=12 {
        let kinds = selection(seed);
        let calls: String = kinds.iter().map(|kind| format!("  {kind}()\n")).collect();
        let before = used_by_thread();
        let seen =
            run(&format!("workers()\ncycles()\nfor round in 1 to 40 {{\n{calls}  println(round)\n}}\n"));
        let left = used_by_thread() - before;
        assert!(left.abs() <= TOLERANCE, "seed {seed}, {kinds:?}: {left} bytes are left");
        let (early, late) = (seen[10..20].iter().max(), seen[30..40].iter().max());
        let growth = late.unwrap() - early.unwrap();
        assert!(growth <= 20 * PER_ROUND, "seed {seed}, {kinds:?}: 20 rounds added {growth} bytes: {seen:?}");
    }
}

/// Events that a daemon takes in the test below. It removes older history after at most 2,048.
const EVENTS: usize = 5_500;

#[test]
fn a_daemon_that_takes_many_events_stays_flat() {
    program_thread();
    let seen = run(&format!(
        "let d = daemon_spawn({{task: \"Watch.\", provider: \"mock\", persist_path: \"/d\", max_iterations: 100000, \
         compact_threshold: 2000, compact_strategy: \"truncate\"}})\n\
         for n in 1 to {EVENTS} {{\n  daemon_trigger(d, \"event ${{n}}\")\n  if n % 50 == 0 {{\n\
         while daemon_snapshot(d).queued_event_count > 0 {{ sleep(5ms) }}\n  llm_mock_clear()\n  println(n) }}\n}}\n\
         daemon_stop(d)\n"
    ));
    let (early, late) = (&seen[seen.len() * 3 / 5..seen.len() * 4 / 5], &seen[seen.len() * 4 / 5..]);
    let growth = late.iter().max().unwrap() - early.iter().max().unwrap();
    // A history without a limit would add 5 MiB.
    assert!(growth <= 512 << 10, "{} events added {growth} bytes: {seen:?}", EVENTS / 5);
}
