//! An agent tree that is stopped at any time: everything that it started has ended, every `finally` ran, and no task is
//! left.

use crate::common::{folder, harn_in};

/// A worker whose tools run a sub-agent, a worker, a workflow and daemons. It is stopped at each point of the program
/// (calls of tools, models and callbacks), and after a number of scheduler turns, which lie between these points.
const PROGRAM: &str = r#"
let open = atomic(0)
let passed = atomic(0)
let beats = atomic(0)
let limit = atomic(0)
let started = atomic(0)
let reached = channel("reached", 1)

fn point() {
  if atomic_add(passed, 1) + 1 == atomic_get(limit) {
    send(reached, true)
    sleep(60000)
  }
  sleep(0)
}
fn within(work) {
  atomic_add(open, 1)
  try {
    point()
    let result = work()
    point()
    return result
  } finally { atomic_add(open, -1) }
}
fn calls(name, tools) {
  llm_mock({match: "*node ${name};*", consume_match: true, tool_calls: tools.map({ t -> {name: t, arguments: {}} })})
}
fn tool_of(names) {
  var tools = tool_registry()
  for e in names { tools = tool_define(tools, e.key, "d", {handler: { a -> within(e.value) }}) }
  return tools
}
fn caller() {
  let ask = default_llm_caller()
  return { call -> within({ -> ask(call) }) }
}
fn daemon_of(name, folder) {
  calls(name, ["beat"])
  let tools = tool_of({beat: { -> atomic_add(beats, 1) }})
  return daemon_spawn({task: "node ${name};", provider: "mock", tools: tools, persist_path: "${folder}/${name}",
    wake_interval_ms: 1, max_iterations: 100000, context_callback: { c -> atomic_add(beats, 1); point(); nil }}).id
}
fn tree(folder, daemons) {
  llm_mock_clear()
  calls("root", ["sub", "worker", "flow", "daemon"])
  calls("sub", ["daemon_b", "leaf"])
  calls("inner", ["daemon_c", "leaf"])
  calls("stage", ["daemon_d", "leaf"])
  let start = { name -> { -> let id = daemon_of(name, folder); send(daemons, id); "started" } }
  let leaf = { -> "leaf" }
  let sub = { -> sub_agent_run("node sub;", {provider: "mock", tools: tool_of({daemon_b: start("b"), leaf: leaf}), llm_caller: caller()}).ok }
  let inner = {mode: "agent", tools: tool_of({daemon_c: start("c"), leaf: leaf}), model_policy: {provider: "mock", max_iterations: 2}}
  let worker = { -> wait_agent(spawn_agent({task: "node inner;", node: inner})).status }
  let stage = {mode: "agent", tools: tool_of({daemon_d: start("d"), leaf: leaf}), model_policy: {provider: "mock", max_iterations: 2}}
  let flow = { -> workflow_execute("node stage;", workflow_graph({nodes: {s: stage}}), [], {persist_path: "${folder}/run.json"}).status }
  let node = {mode: "agent", tools: tool_of({sub: sub, worker: worker, flow: flow, daemon: start("a")}), model_policy: {provider: "mock", max_iterations: 2}}
  return spawn_agent({task: "node root;", node: node})
}
fn until(holds) {
  for i in 1 to 400 { if holds() { return true }; sleep(5) }
  return false
}
/// Stops a tree at one of its points, or after so many turns of the scheduler, and looks at what is left. Gives whether it had ended.
fn stopped(folder, point, turns) {
  atomic_set(passed, 0)
  atomic_set(limit, point)
  let daemons = channel("daemons", 16)
  let root = tree(folder, daemons)
  var ended = false
  if turns == 0 {
    let watch = spawn { wait_agent(root); send(reached, false) }
    ended = !receive(reached)
    cancel(watch)
  } else {
    for i in 1 to turns { sleep(0) }
    ended = list_agents().filter({ a -> a.id == root.id })[0].status != "running"
  }
  let closed = close_agent(root)
  assert(ended || closed.status == "cancelled", "${folder}: ${closed.status}")
  assert(until({ -> atomic_get(open) == 0 }), "${folder}: ${atomic_get(open)} are open")
  let running = list_agents().filter({ a -> a.status == "running" || a.status == "awaiting" })
  assert(running.count() == 0, "${folder}: ${running}")
  let before = atomic_get(beats)
  sleep(10)
  assert(atomic_get(beats) == before, "${folder}: a daemon goes on")
  var id = try_receive(daemons)
  while id != nil {
    atomic_add(started, 1)
    let told = try { daemon_trigger(id, "x") } catch (e) { "${e}" }
    assert(type_of(told) == "string" && told.contains("is not running"), "${folder}: ${told}")
    id = try_receive(daemons)
  }
  for name in ["a", "b", "c", "d"] {
    if file_exists("${folder}/${name}/daemon.meta.json") {
      // Nobody holds its folder any more.
      assert(daemon_stop(daemon_resume("${folder}/${name}")).status == "stopped", "${folder}/${name}")
    }
  }
  return ended
}
var points = 1
while !stopped("state/p${points}", points, 0) { points = points + 1 }
var turns = 1
while !stopped("state/t${turns}", 0, turns) { turns = turns + 1 + turns / 20 }
assert(atomic_get(beats) > 0, "no daemon has done anything")
println("${points} ${turns} ${atomic_get(started)}")
"#;

#[test]
fn a_tree_that_is_stopped_anywhere_leaves_nothing() {
    let dir = folder(&[("main.harn", PROGRAM)]);
    let ran = harn_in(dir.path(), &["run", "main.harn"]);
    let counts: Vec<u64> = ran.out.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [points, turns, daemons] = counts[..] else { panic!("{}", ran.shown()) };
    assert!(ran.code == 0 && points > 30 && turns > 100 && daemons > 60, "{}", ran.shown());
}
