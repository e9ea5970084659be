//! Options that resemble a typo cause one warning on standard error, and have no other effect.
fn warnings(text: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let run = crate::common::run_with("test.harn", text, dir.path(), &[], None);
    assert_eq!(run.error, None, "{}{}", run.output, run.errors);
    run.errors.lines().filter(|line| line.contains("warning: llm: ")).map(str::to_owned).collect()
}

#[test]
fn slips_in_calls_and_loops_are_told_once() {
    let told = warnings(
        r#"
for i in 1 to 3 { llm_call("x", nil, {provider: "mock", temprature: 0.2, maxtokens: 5}) }
agent_loop("x", nil, {provider: "mock", max_iteration: 2, llm_retrys: 3})
"#,
    );
    assert_eq!(
        told,
        [
            "[harn] warning: llm: unknown option `temprature` has no effect (did you mean `temperature`?)",
            "[harn] warning: llm: unknown option `maxtokens` has no effect (did you mean `max_tokens`?)",
            "[harn] warning: llm: unknown option `max_iteration` has no effect (did you mean `max_iterations`?)",
            "[harn] warning: llm: unknown option `llm_retrys` has no effect (did you mean `llm_retries`?)",
        ]
    );
}

#[test]
fn options_of_the_program_itself_are_its_own_business() {
    let told = warnings(
        r#"
tool look(at: int) { description "Looks"
  return at }
llm_call("x", nil, {provider: "mock", _team: "blue", ollama: {num_ctx: 5}, temperature: 0, stop: ["a"], seed: nil})
agent_loop("x", nil, {
  provider: "mock", tools: look, session_id: "s", max_iterations: 2, persistent: false, system_appendix: "Be kind.",
  post_turn_callback: { t -> nil }, policy: {tools: ["look"]}, reminders: false, skills: [],
})
"#,
    );
    assert_eq!(told, [] as [&str; 0]);
}

/// The environment selects the tool format of calls and loops that do not set one, including sub-agents, workers and
/// stages.
#[test]
fn the_environment_names_a_tool_format() {
    let program = r#"
tool look() -> string {
  description "Looks"
  "seen"
}
fn last(f) {
  let before = llm_mock_calls().count()
  let r = try { f() } catch e { e }
  let calls = llm_mock_calls()
  if calls.count() == before { "${r}" } else { calls[before].tools == nil ? "text" : "native" }
}
let o = {provider: "mock", tools: look}
let stage = {mode: "agent", tools: look, model_policy: {provider: "mock", max_iterations: 1}}
println([
  last({ -> agent_loop("x", nil, o) }), last({ -> agent_loop("x", nil, {...o, tool_format: "text"}) }),
  last({ -> agent_loop("x", nil, {...o, tool_format: "native"}) }), last({ -> sub_agent_run("x", o) }),
  last({ -> llm_call("x", nil, o) }), last({ -> workflow_execute("x", {act: stage}) }),
  last({ -> spawn_agent({task: "x", node: stage, wait: true}) }),
])
"#;
    let told = |word: &str| {
        let env = [("HARN_LLM_CALLS_DISABLED", "1"), ("HARN_AGENT_TOOL_FORMAT", word)];
        crate::common::output(program, &env)
    };
    assert_eq!(told("native"), "[native, text, native, native, native, native, native]\n");
    assert_eq!(told("text"), "[text, text, native, text, text, text, text]\n");
    let wrong = "HARN_AGENT_TOOL_FORMAT must be native, text or auto, got `xml`";
    let out = told("xml");
    assert!(
        out.starts_with(&format!("[{wrong}, text, native, sub_agent_run: {wrong}")) || out.contains(wrong),
        "{out}"
    );
    assert_eq!(out.matches(wrong).count(), 5, "{out}");
}

/// The conformance cases that test all options are complete: new options must be added to them.
#[test]
fn the_sweeps_know_every_option() {
    let swept = |case: &str| {
        let path =
            format!("../../conformance/agents/options/every_option_of_a_{case}_changes_something.expected");
        std::fs::read_to_string(path).unwrap()
    };
    let missing = |names: Vec<&str>, text: &str| -> Vec<String> {
        let known = |name: &&&str| !text.lines().any(|line| line == format!("{name}: ok"));
        names.iter().filter(known).map(|name| (*name).to_owned()).collect()
    };
    // This option ends the program, which a conformance case cannot test: see
    // `killed_at_any_moment_each_part_happens_once`.
    let of_loops = harn_runtime::loop_options()
        .iter()
        .map(|option| option.name)
        .filter(|name| *name != "continue_as_new_after");
    assert_eq!(missing(of_loops.collect(), &swept("loop")), [] as [&str; 0]);
    assert_eq!(
        missing(harn_runtime::workflow_options().map(|option| option.name).collect(), &swept("run")),
        [] as [&str; 0]
    );
    let children = swept("child");
    for builtin in ["sub_agent_run", "daemon_spawn"] {
        let own = harn_runtime::own_options(builtin).into_iter().filter(|name| *name != "daemon");
        let named: Vec<String> = own.map(|name| format!("{builtin} {name}")).collect();
        assert_eq!(missing(named.iter().map(String::as_str).collect(), &children), [] as [&str; 0]);
    }
}
