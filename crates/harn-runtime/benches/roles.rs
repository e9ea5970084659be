//! Measures the cost of the role runtime: 1,000 concurrent queries with three tool calls each, answered by scripts, and
//! the creation of a runtime of 50 agents with 500 tools. Run with `cargo bench -p harn-runtime --bench roles`.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a bench")]

use std::path::PathBuf;

use harn_vm::{NativeFunction, Source, Value, block_on, load};

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PROGRAM: &str = r#"
let t = define_tool("t", {input_schema: {n: "int"}}, { args, ctx -> args.n })
let c = define_coordinator("c", {model: "m", prompt: "x", tools: [t], routes: ["s"]})
let s = define_specialist("s", {model: "m", prompt: "x"})
let rt = create_runtime(define_runtime({tenant: define_tenant("a", "v"), agents: [c, s]}), {interpreter: "scripted"})
let script = json_stringify({script: [{tool: "t", args: {n: 1}}, {tool: "t", args: {n: 2}}, {tool: "t", args: {n: 3}}]})
for e in rt.query(script, {thread_id: "warm"}) { }
var best = 1000000
var events = 0
let peak = peak_kib()
var peak_after = 0
for round in 1 to 5 {
  let before = monotonic_ms()
  events = (parallel each (1 to 1000) { n -> rt.query(script, {thread_id: "t${n}-${round}"}).iter().count() }).sum()
  best = min(best, monotonic_ms() - before)
  if round == 1 { peak_after = peak_kib() }
}
println("1,000 queries at once: ${events} events in ${best} ms at best, ${events * 1000 / max(best, 1)} a second")
println("memory: ${peak_after - peak} KiB more at their peak, ${(peak_after - peak) / 1000.0} KiB a run")

var agents = []
for a in 1 to 50 {
  var tools = []
  for n in 1 to 10 {
    tools = tools + [define_tool("tool_${a}_${n}", {input_schema: {query: "string", limit: "int"}, description: "Finds."}, { args, ctx -> 1 })]
  }
  agents = agents + [define_specialist("agent_${a}", {model: {id: "m", provider: "mock"}, prompt: "You help.", tools: tools})]
}
let spec = define_runtime({tenant: define_tenant("a", "v"), agents: agents})
var quickest = 1000000
for n in 1 to 40 {
  let begun = monotonic_ms()
  create_runtime(spec)
  quickest = min(quickest, monotonic_ms() - begun)
}
println("create_runtime with 50 agents and 500 tools: ${quickest} ms at best")
"#;

/// Returns the peak memory of the process in KiB; 0 if the system does not report it.
#[expect(clippy::disallowed_methods, reason = "a bench measures its own process")]
fn peak() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn main() {
    let peak_kib = NativeFunction::value("peak_kib", |_, _| async { Ok(Value::int(peak())) });
    let system = std::rc::Rc::new(harn_system::Real::new());
    let vm = harn_runtime::vm_builder(system).global("peak_kib", peak_kib).build();
    let source = Source { name: "roles.harn".into(), text: PROGRAM.into(), dir: PathBuf::from("/") };
    let program = load(&vm, &source).unwrap_or_else(|e| panic!("{}", e.canonical(PROGRAM)));
    let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    if let Err(error) = &outcome.result {
        panic!("{}", harn_vm::uncaught(&vm, error).0.message);
    }
}
