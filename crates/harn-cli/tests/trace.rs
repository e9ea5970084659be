//! `harn run --trace`, and the manifest of a program that is run from another directory.

use crate::common::{command, finish, folder, harn_in};

const CALLS: &str = r#"
llm_mock({text: "a", model: "gpt-4o-mini", input_tokens: 1000, output_tokens: 500})
llm_mock({error: {category: "auth", message: "no"}})
println(llm_call("x", nil, {provider: "mock"}).text)
println(llm_call_safe("x", nil, {provider: "mock", model: "m"}).ok)
"#;

/// Removes durations, which differ between runs.
fn timeless(text: &str) -> String {
    let words = text.split(' ').collect::<Vec<_>>();
    let word = |(n, word): (usize, &&str)| {
        let is_time = words.get(n + 1).is_some_and(|next| next.starts_with("ms"));
        if is_time { "N".to_owned() } else { (*word).to_owned() }
    };
    words.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_summary_lists_calls_with_tokens_and_cost() {
    let folder = folder(&[
        ("a.harn", CALLS),
        ("b.harn", "println(1)"),
        ("c.harn", "llm_call(\"x\", nil, {provider: \"mock\"})\nthrow 1"),
    ]);
    let ran = harn_in(folder.path(), &["run", "--trace", "a.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "a\nfalse\n"), "{}", ran.shown());
    assert_eq!(
        timeless(&ran.err),
        "─── LLM trace ───\n  #1: gpt-4o-mini | 1000 in + 500 out tokens | N ms\n  #2: m | failed: auth | N ms\n  \
         1 call (1 failed), 1500 tokens (1000in + 500out), N ms, ~$0.0004\n"
    );
    // A program without calls has no summary, and neither has a run without the option.
    assert_eq!(harn_in(folder.path(), &["run", "--trace", "b.harn"]).err, "");
    assert_eq!(harn_in(folder.path(), &["run", "a.harn"]).err, "");
    // A program that fails has a summary, too.
    let failed = harn_in(folder.path(), &["run", "--trace", "c.harn"]);
    assert!(failed.code == 1 && failed.err.contains("─── LLM trace ───"), "{}", failed.shown());
}

#[test]
fn the_variable_does_what_the_option_does() {
    let folder = folder(&[("a.harn", CALLS)]);
    for (value, shown) in [("1", true), ("0", false), ("", false)] {
        let mut command = command(&["run", "a.harn"]);
        command.current_dir(folder.path()).env("HARN_TRACE", value);
        assert_eq!(finish(command, b"").err.contains("LLM trace"), shown, "HARN_TRACE={value}");
    }
}

#[test]
fn the_models_of_a_project_are_those_of_the_program_not_of_the_working_folder() {
    let project =
        |model: &str| format!("[llm.aliases]\nhouse = {{ id = \"{model}\", provider = \"mock\" }}\n");
    let (there, here) = (project("model-there"), project("model-here"));
    let show = "println(llm_call(\"x\", nil, {model: \"house\"}).model)";
    let folder = folder(&[
        ("there/harn.toml", there.as_str()),
        ("there/sub/main.harn", show),
        ("here/harn.toml", here.as_str()),
        ("here/other.txt", ""),
    ]);
    let here = folder.path().join("here");
    for args in [&["run", "../there/sub/main.harn"][..], &["../there/sub/main.harn"]] {
        let ran = harn_in(&here, args);
        assert_eq!((ran.code, ran.out.as_str()), (0, "model-there\n"), "{}", ran.shown());
    }
    // Code without a file belongs to the working directory.
    assert_eq!(harn_in(&here, &["run", "-e", show]).out, "model-here\n");
}

/// A scripted loop with a tool.
const LOOP: &str = r#"
let add = { args -> args.a + args.b }
let tools = tool_define(tool_registry(), "add", "Adds", {parameters: {a: {type: "int"}, b: {type: "int"}}, handler: add})
llm_mock({text: "", tool_calls: [{name: "add", arguments: {a: 1, b: 2}}]})
llm_mock({text: "", tool_calls: [{name: "add", arguments: {a: "x", b: 2}}]})
llm_mock({text: "the sum is 3 ##DONE##"})
print("asking ")
let r = agent_loop("sum", "sys", {provider: "mock", model: "gpt-4o-mini", tools: tools, max_iterations: 4})
println(r.status)
"#;

fn events(out: &str) -> Vec<serde_json::Value> {
    out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["data"].take()).collect()
}

#[test]
fn events_tell_of_models_tools_and_hooks() {
    let hooks = "[[hooks]]\nevent = \"PreToolUse\"\npattern = \"add\"\nhandler = \"hooks.harn::seen\"\n";
    let folder =
        folder(&[("harn.toml", hooks), ("hooks.harn", "pub fn seen(event) { nil }\n"), ("a.harn", LOOP)]);
    let ran = harn_in(folder.path(), &["run", "--json", "a.harn"]);
    let all = events(&ran.out);
    let seqs: Vec<u64> = all.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=all.len() as u64).collect::<Vec<_>>(), "{}", ran.shown());
    let of = |kind: &str| all.iter().filter(|event| event["event_type"] == kind).collect::<Vec<_>>();
    // Earlier output comes first.
    assert_eq!(
        (all[0]["event_type"].as_str(), all[0]["payload"].as_str()),
        (Some("stdout"), Some("asking "))
    );
    let call = of("tool_call")[0];
    assert_eq!((&call["name"], &call["args"]), (&"add".into(), &serde_json::json!({"a": 1, "b": 2})));
    assert!(call["started_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{call}");
    let results = of("tool_result");
    assert_eq!(results[0]["call_id"], call["call_id"]);
    assert_eq!((results[0]["ok"].as_bool(), results[0]["result"].as_str()), (Some(true), Some("3")));
    assert_eq!(results[1]["ok"].as_bool(), Some(false));
    assert!(results[1]["result"].as_str().is_some_and(|why| why.contains("a")), "{}", results[1]);
    let hook = of("hook")[0];
    assert_eq!((hook["name"].as_str(), hook["phase"].as_str()), (Some("PreToolUse"), Some("before")));
    assert_eq!(hook["payload"]["tool"]["name"], "add");
    let kinds: Vec<&str> = of("transcript").iter().filter_map(|event| event["kind"].as_str()).collect();
    for kind in ["system_prompt", "message", "provider_call_request", "provider_call_response"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    assert!(of("transcript").iter().all(|event| event["payload"]["timestamp"].is_string()));
    // Without the option there are no events.
    assert_eq!(harn_in(folder.path(), &["run", "a.harn"]).out, "asking done\n");
}

#[test]
fn a_durable_run_tells_the_same_and_its_replay_too() {
    let folder = folder(&[("a.harn", LOOP)]);
    let types = |out: &str| {
        let all = events(out).into_iter();
        all.map(|event| event["event_type"].as_str().unwrap_or_default().to_owned())
            // Output is written when the journal allows it.
            .filter(|kind| kind != "stdout" && kind != "stderr")
            .collect::<Vec<_>>()
    };
    let plain = types(&harn_in(folder.path(), &["run", "--json", "a.harn"]).out);
    let durable = harn_in(folder.path(), &["run", "--json", "--durable", "--run-id", "r", "a.harn"]);
    assert_eq!(types(&durable.out), plain, "{}", durable.shown());
    let replay = harn_in(folder.path(), &["replay", "--json", "r"]);
    assert_eq!(types(&replay.out), plain, "{}", replay.shown());
    // The journal does not depend on the observer.
    assert_eq!(harn_in(folder.path(), &["replay", "r"]).out, "asking done\n");
    harn_in(folder.path(), &["run", "--durable", "--run-id", "s", "a.harn"]);
    let replay = harn_in(folder.path(), &["replay", "--json", "s"]);
    assert_eq!(types(&replay.out), plain, "{}", replay.shown());
}

#[test]
fn a_profile_tells_where_the_time_went() {
    let folder = folder(&[("a.harn", LOOP), ("b.harn", "println(1)\nthrow 2")]);
    let ran = harn_in(folder.path(), &["run", "--profile", "--profile-json", "x.json", "a.harn"]);
    assert_eq!(ran.out, "asking done\n");
    for name in [
        "─── Profile ───",
        "  parse ",
        "  check ",
        "  compile ",
        "  run ",
        "    llm ",
        " in 3 calls",
        "    tool ",
        "  total ",
    ] {
        assert!(ran.err.contains(name), "{name}: {}", ran.err);
    }
    let json = std::fs::read_to_string(folder.path().join("x.json")).unwrap_or_default();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap_or_else(|_| panic!("{}", ran.shown()));
    assert_eq!((json["llm"]["calls"].as_i64(), json["file"].as_str()), (Some(3), Some("a.harn")));
    let parts: f64 =
        ["parse_ms", "check_ms", "compile_ms", "run_ms"].iter().filter_map(|key| json[*key].as_f64()).sum();
    assert!(
        json["run_ms"].as_f64() > Some(0.0) && (json["total_ms"].as_f64().unwrap() - parts).abs() < 1e-6,
        "{json}"
    );
    // A program that fails has a profile, too; a file that cannot be written is an error.
    let failed = harn_in(folder.path(), &["run", "--profile", "b.harn"]);
    assert!(
        failed.code == 1 && failed.err.contains("─── Profile ───") && !failed.err.contains("llm"),
        "{}",
        failed.shown()
    );
    let unwritten = harn_in(folder.path(), &["run", "--profile-json", "b.harn/x", "a.harn"]);
    assert!(unwritten.code == 1 && unwritten.err.contains("cannot write b.harn/x"), "{}", unwritten.shown());
}

#[test]
fn costs_are_explained_without_a_run() {
    let program = r#"
println("never")
let name = "Ada"
let a = llm_call("Hello there, how are you?", "Be brief.", {provider: "openai", model: "gpt-4o-mini", max_tokens: 200})
let b = llm_call_safe("Hi ${name}", nil, {provider: "openai", model: "gpt-4o-mini"})
fn go() { agent_loop("do it", "sys", {provider: "openai", model: "gpt-4o-mini", max_iterations: 4}) }
"#;
    let folder = folder(&[
        ("a.harn", program),
        ("b.harn", "llm_call(\"x\", nil, {model: argv[0]})"),
        (
            "d.harn",
            "llm_call(\"x\", nil, {provider: \"anthropic\", model: \"claude-sonnet-4-20250514\", max_tokens: 10, thinking: {budget_tokens: 50000}})",
        ),
        ("c.harn", "let"),
    ]);
    let ran = harn_in(folder.path(), &["run", "--explain-cost", "a.harn"]);
    let rows: Vec<String> =
        ran.out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert_eq!(
        rows[..4],
        [
            "PLACE CALL MODEL IN OUT CALLS USD",
            "4:9 llm_call openai:gpt-4o-mini 10 200 1 0.0001",
            "5:9 llm_call_safe openai:gpt-4o-mini >1 16384 1 0.0098",
            "6:11 agent_loop openai:gpt-4o-mini >3 16384 4 0.0393",
        ]
    );
    assert!(rows[5].starts_with("At most $0.0493"), "{}", ran.out);
    // Estimates include thinking, which is part of the reply.
    let thinks = harn_in(folder.path(), &["run", "--explain-cost", "d.harn"]);
    assert!(thinks.out.contains("51024"), "{}", thinks.shown());
    let unknown = harn_in(folder.path(), &["run", "--explain-cost", "b.harn"]);
    assert!(
        unknown.out.contains("Total unknown: a price, a model or a limit is missing."),
        "{}",
        unknown.shown()
    );
    assert_eq!(harn_in(folder.path(), &["run", "--explain-cost", "c.harn"]).code, 1);
    assert_eq!(harn_in(folder.path(), &["run", "--explain-cost", "--json", "a.harn"]).code, 2);
}
