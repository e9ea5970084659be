//! Calls every builtin and method with data nested a million levels deep and with integers at the limits, for every
//! parameter and every declared option. Each call must return or throw, with little memory and time.
//!
//! The other parameters have a valid value, so that the call gets as far as possible. `watchdog.rs` tries other hostile
//! input at random.

#![cfg(target_os = "linux")]

use std::fmt::Write;
use std::time::Duration;

use harn_vm::builtin::{Builtin, Param};

use crate::common::every_case;
use crate::watchdog::{Driven, driven};

/// The values. `tower` is an iterator over an iterator and so on; `closure` returns nested data.
const VALUES: &str = r#"
var deep: any = 1
var nested: any = 1
for i in 1 to 1000000 {
  deep = [deep]
  nested = {a: nested}
}
var tower: any = iter([1, 2])
for i in 1 to 100000 { tower = tower.map({ x -> x }) }
let max: any = 9223372036854775807
let min: any = -9223372036854775807 - 1
let results = channel("results")
fn attempt(what, f) {
  if TRACE { eprintln(what) }
  let result = try { deadline LIMIT { f() } }
  // Looking at the result must work, too.
  let _ = try { deadline LIMIT { is_err(result) && result == deep } }
}
"#;

/// These builtins end or restart the program, leave it by design, or capture the standard error that reports the
/// progress.
const SKIPPED: [&str; 4] = ["exit", "continue_as_new", "host_call", "capture_stderr_start"];

/// The calls are distributed to programs, each of which creates the values once. The first programs are the default
/// sample.
const PROGRAMS: usize = 12;
const SAMPLE: usize = 3;

/// Maximum memory of a program, most of which is for the values.
const PEAK_MB: u64 = 1200;

/// Returns a valid value of a declared type.
fn mild(ty: &str) -> &'static str {
    let word = ty.trim_start_matches(['(', ' ']);
    let word = &word[..word.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(word.len())];
    match word {
        "string" | "text" | "any" => "\"a\"",
        "int" | "float" | "number" => "1",
        "bool" => "true",
        "duration" => "1ms",
        "list" => "[\"a\", 1]",
        "dict" | "" => "{a: 1}",
        "set" => "set(1, 2)",
        "range" => "1 to 3",
        "pair" => "pair(1, 2)",
        "iter" | "stream" | "generator" => "iter([1, 2])",
        "function" | "closure" | "fn" => "{ x -> x }",
        "bytes" => "bytes_from_string(\"a\")",
        "channel" => "channel(\"c\")",
        _ => "nil",
    }
}

/// Returns the names of all options in a type, at any level: `{a?: int, b?: {c?: int}}`.
fn options(ty: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in ty.match_indices(':') {
        let before = ty[..at].trim_end_matches('?');
        let start = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |n| n + 1);
        let name = &before[start..];
        if !name.is_empty() && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Returns the extreme arguments for a parameter.
fn extremes(param: &Param) -> Vec<String> {
    let ty = param.ty;
    let takes = |word: &str| ty.contains(word);
    let any = takes("any");
    let mut tried: Vec<String> = ["deep", "nested", "max", "min"].map(str::to_owned).to_vec();
    if any || takes("list") || ty.starts_with('[') {
        tried.extend(["[deep, nested]", "[max, min]"].map(str::to_owned));
    }
    if any || takes("dict") || takes("{") {
        tried.extend(["{a: deep}", "{a: max, b: min}"].map(str::to_owned));
    }
    if any || takes("iter") || takes("stream") {
        tried.push("tower".to_owned());
    }
    if any {
        tried.extend(["set(deep)", "pair(nested, deep)", "Result.Ok(deep)", "min to max"].map(str::to_owned));
    }
    if any || takes("function") || takes("closure") || takes("fn") {
        tried.push("{ x -> deep }".to_owned());
    }
    if any || takes("float") || takes("number") {
        tried.extend(["0.0 / 0.0", "1.0 / 0.0", "1.7976931348623157e308"].map(str::to_owned));
    }
    if any || takes("duration") {
        tried.push("9223372036854775807ms".to_owned());
    }
    for name in options(ty) {
        tried.extend(["deep", "max", "min"].map(|value| format!("{{{name}: {value}}}")));
    }
    tried
}

/// Appends the calls of a builtin as program lines. For methods, `receiver` is a value of their type.
fn calls(builtin: &Builtin, receiver: Option<&str>, out: &mut Vec<String>) {
    let params = &builtin.params[usize::from(receiver.is_some())..];
    let name = builtin.name();
    let mut call = |what: &str, receiver: Option<&str>, arguments: &[&str]| {
        let arguments = arguments.join(", ");
        let code = match receiver {
            Some(receiver) => format!("{{ ->\n  let r = {receiver}\n  r.{name}({arguments})\n}}"),
            None => format!("{{ -> {name}({arguments}) }}"),
        };
        let what = format!("{} {what}", builtin.full_name);
        out.push(format!("attempt({what:?}, {code})"));
    };
    let needed = params.iter().take_while(|param| !param.optional && !param.rest).count();
    let plain: Vec<&str> = params.iter().map(|param| mild(param.ty)).collect();
    for (at, param) in params.iter().enumerate() {
        for value in extremes(param) {
            let mut arguments = plain[..needed.max(at + 1)].to_vec();
            arguments[at] = &value;
            call(&format!("{} = {value}", param.name), receiver, &arguments);
        }
    }
    if let Some(receiver) = receiver {
        let own: &[&str] = match receiver {
            "[1]" => &["deep", "[nested, deep]", "[max, min]"],
            "{a: 1}" => &["nested", "{a: deep, b: max}"],
            "set(1, 2)" => &["set(deep, nested)", "set(max, min)"],
            "1 to 3" => &["min to max", "max to min", "max to max"],
            "iter([1, 2])" => &["tower", "iter(min to max)", "iter(deep)", "iter([deep, nested])"],
            "pair(1, 2)" => &["pair(deep, nested)"],
            _ => &["\"a\".repeat(1000000)"],
        };
        for value in own {
            call(&format!("on {value}"), Some(value), &plain[..needed]);
            call(&format!("on {value}, all arguments"), Some(value), &plain);
        }
    }
}

fn programs() -> Vec<String> {
    let vm = harn_runtime::vm_builder(std::rc::Rc::new(harn_system::Memory::new())).build();
    let mut lines = Vec::new();
    for builtin in vm.builtins().filter(|builtin| !SKIPPED.contains(&builtin.name())) {
        calls(builtin, None, &mut lines);
    }
    for table in vm.method_tables() {
        let receivers: &[&str] = match table.type_name {
            "string" => &["\"a\""],
            "list" => &["[1]"],
            "dict" => &["{a: 1}"],
            "set" => &["set(1, 2)"],
            "range" => &["1 to 3"],
            "iter" => &["iter([1, 2])"],
            "pair" => &["pair(1, 2)"],
            "any" => &["[1]", "{a: 1}", "pair(1, 2)"],
            _ => &[],
        };
        for method in table.methods {
            for receiver in receivers {
                calls(method, Some(receiver), &mut lines);
            }
        }
    }
    assert!(lines.len() > 5000, "{}", lines.len());
    // Neighbouring calls are similar and may all be slow, so they are distributed over all programs.
    (0..PROGRAMS)
        .map(|part| {
            lines.iter().skip(part).step_by(PROGRAMS).fold(String::new(), |all, line| all + line + "\n")
        })
        .collect()
}

/// Runs one program. Returns a description of the failure.
fn run(calls: &str) -> Option<String> {
    let values = VALUES.replace("TRACE", "true").replace("LIMIT", "50ms");
    let end = "eprintln(read_lines(\"/proc/self/status\").filter({ l -> l.starts_with(\"VmHWM\") })[0])";
    let program = format!("{values}{calls}{end}\neprintln(\"all done\")\n");
    // An upper bound: each call reaches its limit twice and leaves nested data.
    let time = Duration::from_secs(60) + Duration::from_secs(2) * calls.matches("attempt(").count() as u32;
    let Driven { folder, said, status } = driven(&program, "800M", time);
    let mut wrong = String::new();
    if !(said.ends_with("all done\n") && status.is_some_and(|status| status.success())) {
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        // Keep the program for inspection.
        let _ = write!(wrong, "{status:?} in {}, it said last: {last:?}", folder.keep().display());
        return Some(wrong);
    } else {
        let peak = said
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<u64>().ok());
        let peak = peak.unwrap_or(u64::MAX) / 1024;
        if peak > PEAK_MB {
            let _ = write!(wrong, "it took {peak} MB");
        }
    }
    (!wrong.is_empty()).then_some(wrong)
}

#[test]
fn deep_data_and_extreme_numbers_end_every_call() {
    let programs = programs();
    // Several in parallel, because most of the time is spent waiting for limits.
    let chosen = if every_case() { PROGRAMS } else { SAMPLE };
    let wrong: Vec<String> = programs[..chosen]
        .chunks(PROGRAMS / 2)
        .flat_map(|some| {
            std::thread::scope(|scope| {
                let all: Vec<_> = some.iter().map(|calls| scope.spawn(|| run(calls))).collect();
                all.into_iter().filter_map(|one| one.join().unwrap()).collect::<Vec<_>>()
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn types_are_read_as_they_are_written() {
    assert_eq!(options("{a?: int, b: {c?: list<string>}} | nil"), ["a", "b", "c"]);
    assert_eq!(options("dict"), [""; 0]);
    assert_eq!(
        (mild("int | duration"), mild("{a?: int}"), mild("list<string>")),
        ("1", "{a: 1}", "[\"a\", 1]")
    );
}
