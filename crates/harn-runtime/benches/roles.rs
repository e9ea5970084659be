//! What the role runtime costs: 1,000 runs at once with three tool calls each, answered by scripts, and making a runtime of
//! 50 agents with 500 tools. Run with `cargo bench -p harn-runtime --bench roles`.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a bench")]

use std::path::PathBuf;

use harn_vm::{Source, block_on, load};

const PROGRAM: &str = r#"
let t = define_tool("t", {input_schema: {n: "int"}}, { args, ctx -> args.n })
let s = define_specialist("s", {model: "m", prompt: "x", tools: [t]})
let rt = create_runtime(define_runtime({tenant: define_tenant("a", "v"), agents: [s]}), {interpreter: "scripted"})
let script = json_stringify({script: [{tool: "t", args: {n: 1}}, {tool: "t", args: {n: 2}}, {tool: "t", args: {n: 3}}]})
let before = monotonic_ms()
let counts = parallel each (1 to 1000) { n -> rt.run_specialist("s", script).iter().count() }
let took = monotonic_ms() - before
let events = counts.sum()
println("1,000 runs at once: ${events} events in ${took} ms, ${events * 1000 / max(took, 1)} a second")

var agents = []
for a in 1 to 50 {
  var tools = []
  for n in 1 to 10 {
    tools = tools + [define_tool("tool_${a}_${n}", {input_schema: {query: "string", limit: "int"}, description: "Finds."}, { args, ctx -> 1 })]
  }
  agents = agents + [define_specialist("agent_${a}", {model: {id: "m", provider: "mock"}, prompt: "You help.", tools: tools})]
}
let spec = define_runtime({tenant: define_tenant("a", "v"), agents: agents})
create_runtime(spec)
let begun = monotonic_ms()
for n in 1 to 10 { create_runtime(spec) }
println("create_runtime with 50 agents and 500 tools: ${(monotonic_ms() - begun) / 10} ms")
"#;

fn main() {
    let vm = harn_runtime::vm_builder(std::rc::Rc::new(harn_system::Real::new())).build();
    let source = Source { name: "roles.harn".into(), text: PROGRAM.into(), dir: PathBuf::from("/") };
    let program = load(&vm, &source).unwrap_or_else(|e| panic!("{}", e.canonical(PROGRAM)));
    let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    if let Err(error) = &outcome.result {
        panic!("{}", harn_vm::uncaught(&vm, error).0.message);
    }
}
