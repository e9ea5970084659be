//! Every builtin and method counts its work as steps: the duration of a call with large arguments matches the steps
//! that it counts.
//!
//! Deadlines, interruptions and task switches are checked after a number of steps or instructions. A loop of calls with
//! uncounted work therefore delays all of them. The sizes here are a fraction of the guaranteed ones, so that a debug
//! build needs seconds; `deadlines_end_loops_of_large_calls` in harn-cli runs such loops at full size.

use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;

use cpu_time::ThreadTime;
use harn_system::Memory;
use harn_value::{Value, steps};
use harn_vm::{Source, block_on, load};

/// Number of items in lists, sets and dicts, and 1/64 of the bytes in strings.
const ITEMS: usize = 1 << 13;
const SMALL: usize = 8;

/// A factor for the times of a debug build, in which most code is compiled without optimization.
const SLOWNESS: u32 = if cfg!(debug_assertions) { 8 } else { 1 };

/// Maximum duration of a step: a turn has 2^18 steps and takes at most a second.
const STEP: Duration = Duration::from_nanos(3_800);

/// Maximum duration of work that grows with the size and is not counted. A slice of the interpreter has thousands of
/// calls.
const UNCOUNTED: Duration = Duration::from_micros(12);

/// These calls end the program.
const SKIPPED: [&str; 2] = ["exit", "continue_as_new"];

const DATA: &str = "
let text = \"ab,c\\n\".repeat(ITEMS * 64 / 5)
let raw = bytes_from_string(text)
let many = (0 to ITEMS exclusive).to_list()
let numbers = set(...many)
let table = iter(many).map({ n -> pair(\"k${n}\", n) }).to_dict()
let span = 0 to ITEMS exclusive
";

/// The arguments of builtins, and of methods after the receiver. Work that calls functions of the program is counted by
/// their instructions.
const OF_BUILTINS: &[&str] = &[
    "text",
    "raw",
    "many",
    "numbers",
    "table",
    "span",
    "text, \"b\"",
    "\"b\", text",
    "\"b\", \"xyz\", text",
    "many, \",\"",
    "many, many",
    "text, text",
    "many, 1",
    "table, \"k1\"",
    "numbers, numbers",
    "table, table",
];
const OF_METHODS: &[&str] =
    &["", "\"b\"", "\"b\", \"xyz\"", "1, ITEMS - 1", "text", "many", "numbers", "table", "raw"];

const RECEIVERS: &[(&str, &str)] = &[
    ("string", "text"),
    ("bytes", "raw"),
    ("list", "many"),
    ("dict", "table"),
    ("set", "numbers"),
    ("range", "span"),
    ("iter", "iter(many)"),
];

/// Returns all calls as source.
fn calls() -> Vec<String> {
    let vm = harn_runtime::vm_builder(Rc::new(Memory::new())).build();
    let mut calls = Vec::new();
    for builtin in vm.builtins().filter(|builtin| !SKIPPED.contains(&builtin.name())) {
        calls.extend(OF_BUILTINS.iter().map(|args| format!("{}({args})", builtin.name())));
    }
    for table in vm.method_tables() {
        let Some((_, receiver)) = RECEIVERS.iter().find(|(name, _)| *name == table.type_name) else {
            continue;
        };
        for method in table.methods {
            calls.extend(OF_METHODS.iter().map(|args| format!("{receiver}.{}({args})", method.name())));
        }
    }
    calls
}

/// Returns the minimum processor time and the steps of one call of a closure, over `times` calls.
async fn measure(instance: &harn_vm::Instance, call: &Value, times: u32) -> (Duration, u64) {
    let mut least = (Duration::MAX, 0);
    for _ in 0..times {
        let (begun, before) = (ThreadTime::now(), steps::counted());
        let result = instance.call(call, Vec::new()).result().await;
        drop(result);
        let (took, counted) = (begun.elapsed(), steps::counted() - before);
        least = least.min((took, counted));
    }
    least
}

/// Creates a program that builds the data and returns the calls as closures.
fn closures(calls: &[String], items: usize) -> harn_vm::Instance {
    let mut text = DATA.replace("ITEMS", &items.to_string());
    text.push_str("return [\n");
    for call in calls {
        let call = call.replace("ITEMS", &items.to_string());
        let _ = writeln!(text, "{{ -> try {{ deadline 20ms {{ {call} }} }} }},");
    }
    text.push_str("]\n");
    let vm = harn_runtime::vm_builder(Rc::new(Memory::new())).global("argv", Value::list(Vec::new())).build();
    let source = Source { name: "main.harn".into(), text: text.clone(), dir: "/project".into() };
    match load(&vm, &source) {
        Ok(program) => harn_vm::Instance::new(&vm, program),
        Err(error) => panic!("{}", error.canonical(&text)),
    }
}

#[test]
fn every_call_counts_its_work() {
    let calls = calls();
    let mut wrong = Vec::new();
    block_on(async {
        let (large, small) = (closures(&calls, ITEMS), closures(&calls, SMALL));
        let (of_large, of_small) = (large.begin().await.unwrap(), small.begin().await.unwrap());
        let pairs = of_large.as_list().unwrap().iter().zip(of_small.as_list().unwrap().iter());
        for (call, (at_large, at_small)) in calls.iter().zip(pairs) {
            // Most calls throw at once. The others are measured again before they are judged: other processes may have
            // evicted this one from the caches.
            let mut times = 1;
            loop {
                let (took, counted) = measure(&large, at_large, times).await;
                let allowed = (UNCOUNTED + STEP * u32::try_from(counted).unwrap_or(u32::MAX)) * SLOWNESS;
                if took <= allowed {
                    break;
                }
                let (base, _) = measure(&small, at_small, times).await;
                if took.saturating_sub(base) <= allowed {
                    break;
                }
                if times > 4 {
                    wrong.push(format!("{call}: {counted} steps in {took:?}, {base:?} for small data"));
                    break;
                }
                times *= 3;
            }
        }
    })
    .unwrap();
    assert!(
        wrong.is_empty(),
        "{} of {} calls do not count their work:\n{}",
        wrong.len(),
        calls.len(),
        wrong.join("\n")
    );
}
