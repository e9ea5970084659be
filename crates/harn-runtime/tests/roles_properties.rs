//! Properties of role runtimes: runs with random specs and scripts, cancelled runs, and tenants that share their
//! stores.

use std::collections::BTreeSet;

use harn_agent::roles::order;
use harn_value::{Data as Json, json};

/// A small deterministic random number generator.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

const AGENTS: &str = r#"
let plan = define_plan("P", {schema: {type: "object"}})
let gated = define_tool("gated", {input_schema: {}, approval: "always"}, { args, ctx -> "gated" })
let plain = define_tool("plain", {input_schema: {n: "int"}}, { args, ctx -> ctx.progress("p"); args.n })
let broken = define_tool("broken", {input_schema: {}}, { args, ctx -> throw "broken" })
let tools = [gated, plain, broken]
let agents = [
  define_coordinator("c", {model: "m", prompt: "x", routes: ["p", "e", "s"], tools: tools}),
  define_planner("p", {model: "m", prompt: "x", plan: plan, tools: tools}),
  define_executor("e", {model: "m", prompt: "x", plan: plan, tools: tools, routes: ["s"], toolkits: ["agents"]}),
  define_specialist("s", {model: "m", prompt: "x", tools: tools}),
]
let rt = create_runtime(define_runtime({tenant: define_tenant("t", "v"), agents: agents}), {
  interpreter: "scripted", action_dispatcher: { actions, ctx -> if actions.count() > 1 { throw "no" } else { nil } },
})
"#;

/// Returns a random script for an agent.
fn script(chance: &mut Chance, depth: u32) -> Json {
    let calls: Vec<Json> = (0..chance.below(4)).map(|_| call(chance, depth)).collect();
    json!({"script": calls})
}

fn call(chance: &mut Chance, depth: u32) -> Json {
    match chance.below(if depth < 3 { 9 } else { 7 }) {
        0 => json!({"tool": "gated"}),
        1 => json!({"tool": "plain", "args": {"n": chance.below(9)}}),
        2 => json!({"tool": "plain", "args": {"n": "x"}}),
        3 => json!({"tool": "broken"}),
        4 => json!({"tool": "nobody"}),
        5 => {
            let actions: Vec<Json> = (0..chance.below(3)).map(|_| json!({"kind": "a"})).collect();
            let body = json!({"actions": actions});
            json!({"tool": "storePlan", "args": {"specName": "P", "planId": "p1", "body": body}})
        }
        6 => json!({"tool": "executePlan", "args": {"planId": "p1"}}),
        _ => {
            let agent = ["p", "e", "s", "nobody"][usize::try_from(chance.below(4)).unwrap()];
            let prompt = script(chance, depth + 1).to_string();
            json!({"tool": "call_agent", "args": {"agent": agent, "prompt": prompt}})
        }
    }
}

#[test]
fn made_up_runs_keep_the_order_of_events() {
    let mut chance = Chance(88_172_645_463_325_252);
    let prompts: Vec<String> = (0..60).map(|_| script(&mut chance, 0).to_string()).collect();
    let text = format!(
        "{AGENTS}\nfor prompt in json_parse({:?}) {{{}",
        Json::from(prompts).to_string(),
        r#"
  var events = []
  var n = 0
  for e in rt.query(prompt, {thread_id: "t"}) {
    events = events + [e]
    if e.type == "approval-required" {
      n = n + 1
      rt.respond_to_approval(e.data.id, ["approve", "reject", "revise"][n % 3])
    }
  }
  println(json_stringify(events))
}
"#
    );
    let printed = crate::common::output(&text, &[]);
    let mut runs = 0;
    for line in printed.lines() {
        let events: Vec<Json> = serde_json::from_str(line).unwrap();
        assert_eq!(order::violations(&events), [] as [&str; 0], "{line}");
        runs += 1;
    }
    assert_eq!(runs, 60);
}

#[test]
fn cancelled_runs_leave_nothing_behind() {
    let mut chance = Chance(1_442_695_040_888_963);
    let prompts: Vec<String> = (0..25).map(|_| script(&mut chance, 0).to_string()).collect();
    let text = format!(
        "{AGENTS}\nlet prompts = json_parse({:?})\n{}",
        Json::from(prompts).to_string(),
        r#"
fn some_of(prompt, count) {
  var seen = 0
  var asked = nil
  for e in rt.query(prompt, {thread_id: "t"}) {
    seen = seen + 1
    if e.type == "approval-required" { asked = e.data.id }
    if seen >= count || asked != nil { return asked }
  }
  return nil
}
var asked = []
for (i, prompt) in prompts.enumerate() {
  let id = some_of(prompt, i % 7 + 1)
  if id != nil { asked = asked + [id] }
}
sleep(1s)
var resolved = 0
for id in asked {
  try { rt.respond_to_approval(id, "approve") } catch (e) { if e == "approval already resolved: ${id}" { resolved = resolved + 1 } }
}
println("${asked.count() > 0} ${resolved == asked.count()}")
println(rt.list_traces().filter({ t -> t.status == "running" }).count())
println(rt.program_for("c", "x", {thread_id: "t"}).conversation.history.count() % 2)
"#
    );
    assert_eq!(crate::common::output(&text, &[]), "true true\n0\n0\n");
}

/// Returns random agents: roles, routes, tools, approvals.
fn spec(chance: &mut Chance) -> Json {
    const RULES: [&str; 3] = ["never", "always", "default"];
    let count = usize::try_from(chance.below(4)).unwrap() + 1;
    let names: Vec<String> = (0..count).map(|n| format!("a{n}")).collect();
    let agents = names.iter().enumerate().map(|(n, name)| {
        let role = if n == 0 { 0 } else { chance.below(3) + 1 };
        let routes: Vec<&String> =
            names.iter().filter(|other| *other != name && (n == 0 || chance.below(2) == 0)).collect();
        let tools: Vec<&str> =
            ["gated", "plain", "broken"].into_iter().filter(|_| chance.below(3) > 0).collect();
        let rule = |chance: &mut Chance| RULES[usize::try_from(chance.below(3)).unwrap()];
        json!({"name": name, "role": role, "routes": routes, "tools": tools, "stateful": chance.below(2) == 0,
               "approval": {"plans": rule(chance), "tools": rule(chance)}})
    });
    let agents: Vec<Json> = agents.collect();
    // A coordinator needs a route.
    let lonely = agents.len() == 1;
    json!({"agents": agents, "lonely": lonely})
}

const MADE_UP: &str = r#"
let plan = define_plan("P", {schema: {type: "object"}})
let all = {
  gated: define_tool("gated", {input_schema: {}, approval: "always"}, { args, ctx -> "gated" }),
  plain: define_tool("plain", {input_schema: {n: "int"}}, { args, ctx -> ctx.progress("p"); args.n }),
  broken: define_tool("broken", {input_schema: {}}, { args, ctx -> throw "broken" }),
}
fn agent_of(given, lonely) {
  let more = {
    model: "m", prompt: "x", routes: given.routes, tools: given.tools.map({ t -> all[t] }), stateful: given.stateful,
    approval: given.approval, toolkits: given.routes.count() == 0 ? [] : ["agents"],
  }
  if lonely || given.role == 3 { return define_specialist(given.name, more) }
  if given.role == 0 { return define_coordinator(given.name, more) }
  if given.role == 1 { return define_planner(given.name, {...more, plan: plan}) }
  return define_executor(given.name, {...more, plan: plan})
}
for [made, prompts] in json_parse(RUNS) {
  let agents = made.agents.map({ a -> agent_of(a, made.lonely) })
  let rt = create_runtime(define_runtime({tenant: define_tenant("t", "v"), agents: agents}), {
    interpreter: "scripted", action_dispatcher: { actions, ctx -> if actions.count() > 1 { throw "no" } else { nil } },
  })
  for (at, prompt) in prompts.enumerate() {
    var events = []
    let stream = made.lonely ? rt.run_specialist("a0", prompt, {thread_id: "t"}) : rt.query(prompt, {thread_id: "t${at % 2}"})
    for e in stream {
      events = events + [e]
      if e.type == "approval-required" {
        rt.respond_to_approval(e.data.id, ["approve", "reject", "revise"][events.count() % 3])
      }
    }
    println(json_stringify(events))
  }
}
"#;

/// Returns a script in which every agent stores a plan, and then executes it.
fn plan_for_all() -> String {
    let inner = [
        json!({"tool": "storePlan", "args": {"specName": "P", "planId": "p2", "body": {"actions": [{"kind": "a"}]}}}),
        json!({"tool": "executePlan", "args": {"planId": "p2"}}),
    ];
    let calls = inner.iter().flat_map(|call| {
        ["a1", "a2", "a3"]
            .map(|agent| json!({"tool": "call_agent", "args": {"agent": agent, "prompt": call.to_string()}}))
    });
    json!({"script": calls.collect::<Vec<Json>>()}).to_string()
}

#[test]
fn made_up_specs_keep_the_order_of_events() {
    let mut chance = Chance(2_463_534_242_123_457);
    let mut runs = Vec::new();
    for _ in 0..25 {
        let made = spec(&mut chance);
        let mut prompts: Vec<String> = (0..3)
            .map(|_| {
                let script = script(&mut chance, 0).to_string();
                // The agents of these specs have other names.
                ["p", "e", "s"].iter().zip(["a1", "a2", "a3"]).fold(script, |text, (old, new)| {
                    text.replace(&format!("\"agent\":\"{old}\""), &format!("\"agent\":\"{new}\""))
                })
            })
            .collect();
        prompts.push(plan_for_all());
        runs.push(json!([made, prompts]));
    }
    let text = MADE_UP.replace("RUNS", &Json::from(Json::from(runs).to_string()).to_string());
    let printed = crate::common::output(&text, &[]);
    let mut count = 0;
    let mut seen = BTreeSet::new();
    for line in printed.lines() {
        let events: Vec<Json> = serde_json::from_str(line).unwrap();
        assert_eq!(order::violations(&events), [] as [&str; 0], "{line}");
        seen.extend(events.iter().filter_map(|e| e["type"].as_str().map(str::to_owned)));
        count += 1;
    }
    assert_eq!(count, 100);
    for kind in ["approval-required", "tool-progress", "data-tool-agent", "plan-status-change", "finish"] {
        assert!(seen.contains(kind), "no run had {kind}: {seen:?}");
    }
}

const TENANTS: &str = r#"
let plan = define_plan("P", {schema: {type: "object"}})
let kept = {kind: "sqlite", path: "kept.db"}
fn runtime(tenant) {
  create_runtime(
    define_runtime({
      tenant: define_tenant(tenant, "v"),
      agents: [
        define_specialist("s", {model: "m", prompt: "x", stateful: true}),
        define_coordinator("c", {model: "m", prompt: "x", routes: ["p"]}),
        define_planner("p", {model: "m", prompt: "x", plan: plan}),
      ],
      references: [define_reference("R", {schema: {}})],
      storage_factories: {kv: kept, plans: kept, memory: kept},
    }),
    {interpreter: "scripted"},
  )
}
let runtimes = {one: runtime("one"), "one/two": runtime("one/two")}
fn told(rt, name, args) {
  let prompt = json_stringify({tool: "call_agent", args: {agent: "p", prompt: json_stringify({tool: name, args: args})}})
  for e in rt.query(prompt, {thread_id: "plans"}) {
    if e.type == "tool-invocation" && e.state == "result" && e.toolName == name { return e.result }
  }
}
for op in json_parse(OPS) {
  let rt = runtimes[op.tenant]
  let seen = match op.kind {
    "say" -> {
      for e in rt.run_specialist("s", op.text, {thread_id: op.thread}) { }
      nil
    }
    "recall" -> { rt.program_for("s", "x", {thread_id: op.thread}).conversation.history.map({ m -> m.content }) }
    "store" -> {
      told(rt, "storePlan", {specName: "P", planId: op.id, body: {actions: [{kind: op.text}]}})
      nil
    }
    "plan" -> { told(rt, "getPlan", {planId: op.id})?.actions?.map({ a -> a.kind }) }
    "refer" -> {
      rt.create_reference("R", {n: op.n})
      nil
    }
    "resolve" -> { try { rt.resolve_reference({kind: "R", id: sha256("{\"n\":${op.n}}")}).n } catch (e) { nil } }
  }
  println(json_stringify(seen))
}
"#;

#[test]
fn tenants_that_share_their_stores_never_see_each_other() {
    let mut chance = Chance(987_654_321_987_654_321);
    let pick = |chance: &mut Chance, of: &[&str]| {
        of[usize::try_from(chance.below(of.len() as u64)).unwrap()].to_owned()
    };
    let ops: Vec<Json> = (0..120)
        .map(|n| {
            let tenant = pick(&mut chance, &["one", "one/two"]);
            let kind = pick(&mut chance, &["say", "recall", "store", "plan", "refer", "resolve"]);
            // Names that would collide if keys were concatenated without escaping.
            json!({"tenant": tenant, "kind": kind, "text": format!("{tenant}:{n}"),
                   "thread": pick(&mut chance, &["t", "two/t"]), "id": pick(&mut chance, &["p", "two/p"]),
                   "n": chance.below(3)})
        })
        .collect();
    let text = TENANTS.replace("OPS", &Json::from(Json::from(ops.clone()).to_string()).to_string());
    let printed = crate::common::output(&text, &[]);
    let seen: Vec<Json> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(seen.len(), ops.len());
    // The expected data of each tenant depends only on its own operations.
    let mut found = 0;
    for (at, (op, seen)) in ops.iter().zip(&seen).enumerate() {
        let mut own = ops[..at].iter().filter(|o| o["tenant"] == op["tenant"]);
        let expected = match op["kind"].as_str().unwrap() {
            "recall" => own
                .filter(|o| o["kind"] == "say" && o["thread"] == op["thread"])
                .flat_map(|o| [o["text"].clone(), o["text"].clone()])
                .collect(),
            "plan" => {
                let last = own.rfind(|o| o["kind"] == "store" && o["id"] == op["id"]);
                last.map_or(Json::Null, |o| json!([o["text"]]))
            }
            "resolve" => {
                let mut made = own.filter(|o| o["kind"] == "refer");
                made.find(|o| o["n"] == op["n"]).map_or(Json::Null, |o| o["n"].clone())
            }
            _ => Json::Null,
        };
        assert_eq!(*seen, expected, "step {at}: {op}");
        found += usize::from(!expected.is_null());
    }
    assert!(found > 20, "{found}");
}
