//! Whatever a builtin or a method is given, it answers or throws: no hang, no panic, no abort, no memory beyond the limit.
//!
//! Each is called with hostile arguments under a deadline and a memory limit. The programs run in a scratch folder,
//! with a home, a configuration and an environment of their own. Which arguments are tried is a matter of the seed;
//! `WATCHDOG_ROUNDS=40` tries more of them, and each alone with every builtin.

#![cfg(unix)]

use std::fmt::Write;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::common;

/// Data that is small and endless to walk, deep, long, huge, extreme, odd.
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

/// Calls `f(args)` with all kinds of lists of arguments. It prints where it is, for the message of a failure.
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

/// End the program, reach outside of it by design, or take the standard error that tells where the driver is.
const SKIPPED: [&str; 3] = ["exit", "host_call", "capture_stderr_start"];

/// Calls in a program of its own.
struct Batch {
    calls: String,
}

fn batches() -> Vec<Batch> {
    let vm = harn_runtime::vm_builder(std::rc::Rc::new(harn_system::Memory::new())).build();
    let mut lines = Vec::new();
    for builtin in vm.builtins().filter(|b| !SKIPPED.contains(&b.name())) {
        let name = builtin.name();
        lines.push(format!("drive(\"{name}\", {{ args -> {name}(...args) }}, [[]])"));
    }
    for table in vm.method_tables() {
        let receivers = match table.type_name {
            "string" => "[[text], [\"a\"]]",
            "list" => "[[shared], [deep], [many], [[\"a\", text, 1]]]",
            "dict" => "[[nested], [{a: shared, b: 1}]]",
            "set" => "[[set(shared, deep)], [set(1, 2)]]",
            "range" => "[[1 to 1000000000000], [-9223372036854775807 to 9223372036854775807]]",
            "iter" => "[[iter(shared)], [iter(1 to 1000000000000)], [iter(many)]]",
            "pair" => "[[pair(shared, deep)]]",
            _ => continue,
        };
        for method in table.methods {
            let name = method.name();
            let call = format!("{{ args ->\n  let r = args[0]\n  r.{name}(...args[1:])\n}}");
            lines.push(format!("drive(\"{}.{name}\", {call}, {receivers})", table.type_name));
        }
    }
    // One program for a share of the calls: the data is made once.
    let share = lines.len().div_ceil(16);
    lines.chunks(share).map(|calls| Batch { calls: calls.join("\n") }).collect()
}

/// A program that was run in a folder and an environment of its own.
pub(crate) struct Driven {
    pub(crate) folder: tempfile::TempDir,
    /// What it wrote to standard error.
    pub(crate) said: String,
    /// How it ended; nothing if it had to be killed.
    pub(crate) status: Option<ExitStatus>,
}

/// Runs a program with so much memory for so long at most.
pub(crate) fn driven(program: &str, memory: &str, time: Duration) -> Driven {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.harn"), program).unwrap();
    let errors = std::fs::File::create(folder.path().join("errors")).unwrap();
    let mut child = common::command(&["run", "--max-memory", memory, "main.harn"])
        .current_dir(folder.path())
        .env_clear()
        .env("HOME", folder.path())
        .env("PATH", "/nowhere")
        .env("LLM_PROVIDER", "mock")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .unwrap();
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
    let said = std::fs::read_to_string(folder.path().join("errors")).unwrap_or_default();
    Driven { folder, said, status }
}

impl Batch {
    /// What went wrong, if something did.
    fn run(&self, number: usize, rounds: &str) -> Option<String> {
        let driver = DRIVER.replace("SEED", &number.to_string()).replace("ROUNDS", rounds);
        let program = format!("{POOL}{driver}{}\neprintln(\"all done\")\n", self.calls);
        // Only a hang takes as long: each call may take its deadline, and leave deep data by a long way.
        let tried = 40 + 10 * rounds.parse::<u64>().unwrap_or(1);
        let calls = self.calls.matches("drive(").count() as u64;
        let Driven { said, status, .. } = driven(&program, "200M", Duration::from_secs(60 + calls * tried));
        let done = said.ends_with("all done\n") && status.is_some_and(|status| status.success());
        let mut message = String::new();
        if !done {
            let last: Vec<&str> = said.lines().rev().take(5).collect();
            let _ = write!(message, "{status:?}, it said last: {last:?}");
        }
        (!message.is_empty()).then_some(message)
    }
}

#[test]
fn nothing_is_deaf_or_dead() {
    let rounds = std::env::var("WATCHDOG_ROUNDS").unwrap_or_else(|_| "3".to_owned());
    let batches = batches();
    let failures: Vec<String> =
        batches.iter().enumerate().filter_map(|(number, batch)| batch.run(number, &rounds)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
