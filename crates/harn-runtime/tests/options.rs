//! Options that look like a slip are told once, on standard error, and change nothing.
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
for i in 1 to 3 { llm_call("x", nil, {provider: "mock", temprature: 0.2, top_p: "much"}) }
agent_loop("x", nil, {provider: "mock", max_iteration: 2, llm_retries: "3"})
"#,
    );
    assert_eq!(
        told,
        [
            "[harn] warning: llm: unknown option `temprature` has no effect (did you mean `temperature`?)",
            "[harn] warning: llm: option `top_p` must be a number; `much` counts as absent",
            "[harn] warning: llm: unknown option `max_iteration` has no effect (did you mean `max_iterations`?)",
            "[harn] warning: llm: option `llm_retries` must be an int; `3` counts as absent",
        ]
    );
}

#[test]
fn options_of_the_program_itself_are_its_own_business() {
    let told = warnings(
        r#"
tool look(at: int) { description "Looks"
  return at }
llm_call("x", nil, {provider: "mock", team: "blue", ollama: {num_ctx: 5}, temperature: 0, stop: ["a"], seed: nil})
agent_loop("x", nil, {
  provider: "mock", tools: look, session_id: "s", max_iterations: 2, persistent: false, system_appendix: "Be kind.",
  post_turn_callback: { t -> nil }, policy: {tools: ["look"]}, reminders: false, skills: [],
})
"#,
    );
    assert_eq!(told, [] as [&str; 0]);
}
