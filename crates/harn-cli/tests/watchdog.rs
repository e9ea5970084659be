//! Every builtin and method returns or throws for any input: no hang, no panic, no abort, no memory beyond the limit.
//!
//! Each is called with hostile arguments under a deadline and a memory limit, and in loops with large arguments. The
//! programs run in a scratch directory with a separate home, configuration and environment. The tests try a sample of
//! the operations; `make watchdog N=40` tries all of them, N times with random arguments, and with more than 10 also
//! with each argument alone.

#![cfg(unix)]

use std::fmt::Write;
use std::io::Read;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::common;

/// Values that share structure and are exponentially large to traverse, and values that are nested, long, huge, extreme
/// or unusual.
const POOL: &str = r#"
var shared = ["x"]
var twin = ["x"]
for i in 1 to 60 {
  shared = [shared, shared]
  twin = [twin, twin]
}
var deep = []
for i in 1 to 1000000 { deep = [deep] }
var nested = {a: 1}
for i in 1 to 100000 { nested = {a: nested} }
let text = "ab,c\n".repeat(2000000)
let many = (1 to 300000).to_list()
let pool = [
  shared, twin, deep, nested, text, many, {a: shared, b: twin}, set(shared), pair(shared, deep), 1 to 1000000000000,
  9223372036854775807, -9223372036854775807 - 1, 1000000000000, 0.0 / 0.0, 1.0 / 0.0, -1, 0, nil, true, "", "a", "\u{0}",
  "[".repeat(200000), "(".repeat(50000), "{".repeat(5000), ".*?z|a", [], {}, { x -> x }, { a, b -> shared }, 1h,
]
let mild = ["a", "[a-z]*", 2, 1000, ["a", 1], {a: 1}, { x -> [x] }, 1 to 1000000000000, text, many, shared, deep]
"#;

/// Calls `f(args)` with argument lists of all kinds. It prints its position for the failure message.
const DRIVER: &str = r#"
let rng = rng_seed(SEED)
fn attempt(name, f, args) {
  let result = try { deadline 300ms { f(args) } }
  // Looking at the result must work, too.
  let _ = try { deadline 300ms { result == shared || is_err(result) } }
}
fn pick(values) { random_choice(rng, values) }
fn drive(name, f, receivers) {
  eprintln(name)
  for r in receivers {
    if ROUNDS > 10 {
      attempt(name, f, r)
      for a in pool { attempt(name, f, r + [a]) }
    }
    for i in 1 to ROUNDS {
      attempt(name, f, match i % 4 {
        0 -> { r + [pick(pool), pick(pool)] }
        1 -> { r + [pick(pool)] }
        2 -> { r + [pick(mild), pick(pool)] }
        3 -> { r + [pick(mild), pick(mild), pick(pool), pick(mild)] }
      })
    }
  }
}
"#;

/// Large arguments, and a task that counts its turns: 50 MB and 2,000,000 items for that value of ITEMS.
const LARGE: &str = r#"
let text = "ab,c\n".repeat(ITEMS * 5)
let raw = bytes_from_string(text)
let many = (1 to ITEMS).to_list()
let numbers = set(...many)
let table = iter(1 to ITEMS).map({ n -> pair("k${n}", n) }).to_dict()
let of_builtins = [
  [text], [raw], [many], [numbers], [table], [text, "b"], ["b", text], ["b", "xyz", text], [many, ","], [many, many],
  [text, text], [many, 1],
]
let of_methods = [
  [], ["b"], ["b", "xyz"], [1, ITEMS - 1], [text], [many], [numbers], [{ x -> x }], [{ a, b -> a }],
]
let turns = atomic(0)
let ticker = spawn {
  while true {
    atomic_add(turns, 1)
    sleep(1)
  }
}
"#;

/// Calls `f(args)` in a loop until its deadline or the first failed call. Processor time is measured where it is
/// available, because other processes do not affect it.
const SPINNER: &str = r#"
fn processor_ms() {
  if !file_exists("/proc/self/stat") { return monotonic_ms() }
  let fields = read_file("/proc/self/stat").split(") ")[1].split(" ")
  (to_int(fields[11]) + to_int(fields[12])) * 10
}
fn spin(name, f, args) {
  let before = atomic_get(turns)
  let begun = processor_ms()
  var calls = 0
  let _ = try {
    deadline 5ms {
      while true {
        f(args)
        calls += 1
      }
    }
  }
  let took = processor_ms() - begun
  let kinds = args.map({ a -> type_of(a) }).join(", ")
  let report = "${name}(${kinds}): ${calls} calls for ${took} ms"
  if took > LIMIT { append_file("failures", "${report}\n") }
  if calls > 1 && took > 200 && atomic_get(turns) == before { append_file("failures", "${report}, no turn of another task\n") }
}
fn drive(name, f, receivers) {
  eprintln(name)
  for r in receivers {
    let after = if r == [] { of_builtins } else { of_methods }
    for more in after { spin(name, f, r + more) }
  }
}
"#;

/// These builtins end or restart the program, leave it by design, or capture the standard error that reports the
/// progress.
const SKIPPED: [&str; 4] = ["exit", "continue_as_new", "host_call", "capture_stderr_start"];

/// The calls of one program.
struct Batch {
    calls: String,
}

/// Returns the calls of every `step`th builtin, and of the methods of types with receivers, in up to `count` programs,
/// each of which creates the data once.
fn batches(receivers: impl Fn(&str) -> Option<&'static str>, step: usize, count: usize) -> Vec<Batch> {
    let vm = harn_runtime::vm_builder(std::rc::Rc::new(harn_system::Memory::new())).build();
    let mut lines = Vec::new();
    for builtin in vm.builtins().filter(|b| !SKIPPED.contains(&b.name())) {
        let name = builtin.name();
        lines.push(format!("drive(\"{name}\", {{ args -> {name}(...args) }}, [[]])"));
    }
    for table in vm.method_tables() {
        let Some(receivers) = receivers(table.type_name) else { continue };
        for method in table.methods {
            let name = method.name();
            let call = format!("{{ args ->\n  let r = args[0]\n  r.{name}(...args[1:])\n}}");
            lines.push(format!("drive(\"{}.{name}\", {call}, {receivers})", table.type_name));
        }
    }
    let lines: Vec<String> = lines.into_iter().step_by(step).collect();
    let share = lines.len().div_ceil(count);
    lines.chunks(share).map(|calls| Batch { calls: calls.join("\n") }).collect()
}

fn hostile(type_name: &str) -> Option<&'static str> {
    Some(match type_name {
        "string" => "[[text], [\"a\"]]",
        "list" => "[[shared], [deep], [many], [[\"a\", text, 1]]]",
        "dict" => "[[nested], [{a: shared, b: 1}]]",
        "set" => "[[set(shared, deep)], [set(1, 2)]]",
        "range" => "[[1 to 1000000000000], [-9223372036854775807 to 9223372036854775807]]",
        "iter" => "[[iter(shared)], [iter(1 to 1000000000000)], [iter(many)]]",
        "pair" => "[[pair(shared, deep)]]",
        _ => return None,
    })
}

fn large(type_name: &str) -> Option<&'static str> {
    Some(match type_name {
        "string" => "[[text]]",
        "bytes" => "[[raw]]",
        "list" => "[[many]]",
        "dict" => "[[table]]",
        "set" => "[[numbers]]",
        "range" => "[[1 to len(many)]]",
        "iter" => "[[iter(many)]]",
        _ => return None,
    })
}

/// A program that was run in its own directory and environment.
pub(crate) struct Driven {
    pub(crate) folder: tempfile::TempDir,
    /// The end of its standard error.
    pub(crate) said: String,
    /// How it ended; `None` if it had to be killed.
    pub(crate) status: Option<ExitStatus>,
}

/// Runs a program with a memory limit and a time limit.
pub(crate) fn driven(program: &str, memory: &str, time: Duration) -> Driven {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.harn"), program).unwrap();
    let mut child = common::command(&["run", "--max-memory", memory, "main.harn"])
        .current_dir(folder.path())
        .env_clear()
        .env("HOME", folder.path())
        .env("PATH", "/nowhere")
        .env("LLM_PROVIDER", "mock")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = child.stderr.take().unwrap();
    let end_of_errors = std::thread::spawn(move || {
        let (mut end, mut piece) = (Vec::new(), vec![0; 1 << 16]);
        while let Ok(len @ 1..) = errors.read(&mut piece) {
            end.extend_from_slice(&piece[..len]);
            end.drain(..end.len().saturating_sub(1 << 16));
        }
        String::from_utf8_lossy(&end).into_owned()
    });
    let end = Instant::now() + time;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    Driven { folder, said: end_of_errors.join().unwrap(), status }
}

impl Batch {
    /// Returns the failures of a program that makes the calls after `prelude`, one per line.
    fn run(&self, prelude: &str, memory: &str, time_per_call: u64) -> Option<String> {
        // Operations that the end of the program would cancel are reported on standard error.
        let end = if prelude.contains("let ticker") { "cancel(ticker)\n" } else { "" };
        let program = format!("{prelude}{}\n{end}eprintln(\"all done\")\n", self.calls);
        // Only a hang takes this long: each call may reach its deadline, and slowly release nested data.
        let time = 60 + self.calls.matches("drive(").count() as u64 * time_per_call;
        let Driven { folder, said, status } = driven(&program, memory, Duration::from_secs(time));
        let mut message = std::fs::read_to_string(folder.path().join("failures")).unwrap_or_default();
        if !(said.ends_with("all done\n") && status.is_some_and(|status| status.success())) {
            let last: Vec<&str> = said.lines().rev().take(5).collect();
            let _ = write!(message, "{status:?}, it said last: {last:?}");
        }
        (!message.is_empty()).then_some(message)
    }
}

/// Returns the rounds of `make watchdog`, which tries all operations at full size. Other runs try some.
fn rounds() -> Option<u64> {
    std::env::var("HARN_WATCHDOG").ok().map(|rounds| rounds.parse().expect("a number of rounds"))
}

#[test]
fn nothing_is_deaf_or_dead() {
    let (rounds, step, programs) = rounds().map_or((3, 24, 2), |rounds| (rounds, 1, 16));
    let time_per_call = 40 + 10 * rounds;
    let run = |(number, batch): (usize, &Batch)| {
        let driver = DRIVER.replace("SEED", &number.to_string()).replace("ROUNDS", &rounds.to_string());
        batch.run(&format!("{POOL}{driver}"), "200M", time_per_call)
    };
    let failures: Vec<String> = batches(hostile, step, programs).iter().enumerate().filter_map(run).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A deadline ends a loop of long calls, and other tasks run in between: within a second with 50 MB and 2,000,000 items
/// in the release build of `make watchdog`. Other runs have less data and more time; `bulk_work` in harn-runtime
/// measures single calls.
#[test]
fn deadlines_end_loops_of_large_calls() {
    let (items, limit, step, programs) =
        if rounds().is_some() { ("2000000", "1000", 1, 80) } else { ("100000", "4000", 80, 1) };
    let prelude = LARGE.replace("ITEMS", items) + &SPINNER.replace("LIMIT", limit);
    let failures: Vec<String> =
        batches(large, step, programs).iter().filter_map(|batch| batch.run(&prelude, "2G", 60)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
