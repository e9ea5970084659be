//! `harn explain prompt`.

use crate::common::{Ran, command, finish, folder, harn_in, harn_with};
use insta::assert_snapshot;
use serde_json::Value;

/// Three calls of two kinds. The guidance of `todo` is included with the tool.
const PROGRAM: &str = r#"
let todo = {name: "todo", description: "Track plan items", guidance: "Always update the TODO tracker.", parameters: {item: "string"}, handler: { args -> "ok" }}
let house = {title: "House rules", content: "Small commits. Say what you did, in the order in which you did it, and why."}
let system = "You are a pragmatic engineering partner."

llm_call("Hello", system, {provider: "mock", system_appendix: house})
llm_mock({tool_calls: [{name: "todo", arguments: {item: "first"}}]})
llm_mock({text: "Done."})
agent_loop("Plan the release", system, {provider: "mock", tool_format: "native", tools: [todo], system_appendix: house})
println("the end")
"#;

fn explain(text: &str, options: &[&str]) -> Ran {
    let folder = folder(&[("main.harn", text)]);
    harn_in(folder.path(), &[&["explain", "prompt", "main.harn"], options].concat())
}

fn json(text: &str, options: &[&str]) -> (i32, Value) {
    let ran = explain(text, &[&["--json"], options].concat());
    (ran.code, serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}", ran.shown())))
}

#[test]
fn every_call_is_shown_with_its_margin() {
    let ran = explain(PROGRAM, &[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "the end\n"));
    assert_snapshot!(ran.out);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
}

#[test]
fn colour_changes_nothing_else() {
    let folder = folder(&[("main.harn", PROGRAM)]);
    let mut command = command(&["explain", "prompt", "main.harn"]);
    command.current_dir(folder.path()).env_remove("NO_COLOR").env("FORCE_COLOR", "1");
    let coloured = finish(command, b"").out;
    assert!(coloured.contains("\u{1b}[1mCall 1: "), "{coloured}");
    let plain = without_colour(&coloured);
    let lines = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    assert_eq!(lines(&plain), lines(&explain(PROGRAM, &[]).out));
}

fn without_colour(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').unwrap().1)
}

#[test]
fn what_is_shown_is_what_is_sent() {
    let text = format!("{PROGRAM}\neprintln(json_stringify(llm_mock_calls().map({{ c -> c.system }})))\n");
    let ran = explain(&text, &["--json"]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    let sent: Value = serde_json::from_str(ran.err.lines().last().unwrap()).unwrap();
    let shown: Vec<Value> =
        document["data"]["calls"].as_array().unwrap().iter().map(|call| call["system"].clone()).collect();
    assert_eq!(Value::from(shown.clone()), sent);
    assert_eq!(shown.len(), 3);
}

#[test]
fn json_has_fragments_ranges_and_the_difference() {
    let (code, document) = json(PROGRAM, &[]);
    assert_eq!((code, &document["ok"], &document["error"]), (0, &true.into(), &Value::Null));
    assert_eq!(document["schemaVersion"], 1);
    let data = &document["data"];
    assert_eq!((&data["file"], &data["exit_code"]), (&"main.harn".into(), &0.into()));
    let calls = data["calls"].as_array().unwrap();
    let keys: Vec<&str> = calls[0].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "number",
            "provider",
            "model",
            "iteration",
            "system",
            "fragments",
            "included",
            "excluded",
            "stability",
            "since_last_call",
            "messages",
            "tools",
            "answer"
        ]
    );
    assert_eq!((&calls[0]["iteration"], &calls[0]["since_last_call"]), (&Value::Null, &Value::Null));
    assert_eq!((&calls[2]["number"], &calls[2]["iteration"]), (&3.into(), &1.into()));
    assert_eq!(calls[2]["tools"], serde_json::json!(["todo"]));
    // The system prompt, an empty line, and the `## ` of two different headings.
    assert_eq!(calls[1]["since_last_call"]["shared_prefix_bytes"], 40 + 2 + 3);
    assert_eq!(calls[1]["messages"][0]["content"], "Plan the release");
    for call in calls {
        let system = call["system"].as_str().unwrap();
        for fragment in call["fragments"].as_array().unwrap().iter().filter(|f| f["included"] == true) {
            let at = |key: &str| usize::try_from(fragment[key].as_u64().unwrap()).unwrap();
            assert_eq!(system[at("start")..at("end")].len(), at("bytes"));
        }
    }
}

#[test]
fn left_out_fragments_say_why() {
    let text = r#"
let deploy = {name: "deploy", description: "Ship", guidance: "Deploy only green builds.", defer_loading: true}
llm_call("Hi", "Base.", {provider: "mock", tools: [deploy, {name: "read", description: "Read"}], tool_search: true})
"#;
    let ran = explain(text, &[]);
    assert!(
        ran.out
            .contains("\nLeft out\n tool:deploy.guidance           requires tool `deploy` (not available)\n"),
        "{}",
        ran.shown()
    );
}

#[test]
fn loops_show_reminders_and_the_guidance_of_waiting_tools() {
    let text = r#"
let deploy = {name: "deploy", description: "Ship", guidance: "Deploy only green builds.", defer_loading: true, handler: { args -> "ok" }}
register_reminder_provider({id: "clock", subscribes_to: ["pre_turn"], evaluate: { c -> {body: "Hurry.", dedupe_key: "clock"} }})
let read = {name: "read", description: "Read", handler: { args -> "ok" }}
agent_loop("Hi", "Base.", {provider: "mock", tools: [read, deploy], tool_search: true, tool_format: "native"})
"#;
    let ran = explain(text, &[]);
    assert!(
        ran.out.contains("\n tool:deploy.guidance           requires tool `deploy` (not available)\n"),
        "{}",
        ran.shown()
    );
    assert!(ran.out.contains("\n reminder:clock "), "{}", ran.shown());
}

#[test]
fn real_providers_need_no_key_and_no_network() {
    let text = r#"
let schema = {type: "object", properties: {a: {type: "integer"}}, required: ["a"]}
llm_call("Hi", "Base.", {provider: "anthropic", model: "claude-sonnet-4-6"})
let r = llm_call_structured_safe("Hi", schema, {provider: "anthropic", model: "claude-sonnet-4-6", retries: 1})
println(r.ok)
println(llm_healthcheck("anthropic", {api_key: "x"}).valid)
"#;
    let (code, document) = json(text, &[]);
    assert_eq!(code, 0, "{document}");
    let calls = document["data"]["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2, "the default reply fits the schema: {document}");
    assert!(calls.iter().all(|call| call["provider"] == "anthropic" && call["model"] == "claude-sonnet-4-6"));
    assert_eq!(calls[0]["fragments"][0]["id"], "primary");
    let ran = explain(text, &[]);
    assert_eq!(ran.err, "true\nfalse\n");
}

#[test]
fn prompts_are_those_of_the_route() {
    // This route has no parameter for a schema, so the prompt contains it; a call of the mock would not.
    let text = r#"
let schema = {type: "object", properties: {a: {type: "integer"}}, required: ["a"]}
llm_mock({text: "{\"a\": 1}"})
let model = {provider: "groq", model: "llama-3.3-70b-versatile"}
println(llm_call_structured("Hi", schema, {...model, system: "Base."}).a)
llm_call([{role: "system", content: "Moved."}, {role: "user", content: "Hi"}], nil, {provider: "anthropic", model: "claude-sonnet-4-6"})
"#;
    let (code, document) = json(text, &[]);
    assert_eq!(code, 0, "{document}");
    let calls = document["data"]["calls"].as_array().unwrap();
    let ids = |call: &Value| -> Vec<Value> {
        call["fragments"].as_array().unwrap().iter().map(|f| f["id"].clone()).collect()
    };
    assert_eq!(ids(&calls[0]), ["primary", "call:output_instruction"]);
    assert_eq!(ids(&calls[1]), ["message:0"]);
    assert_eq!(
        calls[1]["since_last_call"]["removed"],
        serde_json::json!(["primary", "call:output_instruction"])
    );
}

#[test]
fn a_prompt_that_an_experiment_replaced_is_told_as_such() {
    let text = r#"llm_call("Hi", "Base.", {provider: "mock", structural_experiment: "inverted_system"})"#;
    let (_, document) = json(text, &[]);
    let call = &document["data"]["calls"][0];
    assert_eq!(
        (&call["system"], &call["fragments"][0]["id"]),
        (&"Hi".into(), &"call:structural_experiment".into())
    );
    assert_eq!((&call["fragments"][0]["start"], &call["fragments"][0]["end"]), (&0.into(), &2.into()));
}

#[test]
fn scripted_replies_are_used_and_then_the_default_ones() {
    let text = r#"
llm_mock({text: "scripted"})
println(llm_call("one", nil, {provider: "openai", model: "gpt-4o-mini"}).text)
println(llm_call("two", nil, {provider: "openai", model: "gpt-4o-mini"}).text)
"#;
    assert_eq!(explain(text, &[]).err, "scripted\nMock response to 1-word prompt: two\n");
    let folder = folder(&[
        (
            "main.harn",
            "println(llm_call(\"one\", nil, {provider: \"openai\", model: \"gpt-4o-mini\"}).text)\n",
        ),
        ("replies.jsonl", "{\"text\": \"from a file\"}\n"),
    ]);
    let ran = harn_in(folder.path(), &["explain", "prompt", "--llm-mock", "replies.jsonl", "main.harn"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "from a file\n"));
    let ran = harn_in(folder.path(), &["explain", "prompt", "--llm-mock", "gone.jsonl", "main.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("cannot read gone.jsonl: "), "{}", ran.err);
}

#[test]
fn streams_and_completions_are_calls_too() {
    let text = r#"
for piece in llm_stream("Hi", "Streamed.", {provider: "mock"}) { print(piece) }
llm_completion("let x = ", "", nil, {provider: "openai", model: "gpt-4o-mini"})
"#;
    let (code, document) = json(text, &[]);
    let systems: Vec<&Value> =
        document["data"]["calls"].as_array().unwrap().iter().map(|call| &call["system"]).collect();
    assert_eq!((code, systems), (0, vec![&"Streamed.".into(), &Value::Null]), "{document}");
}

/// A completion over a chat route has an instruction, which is a fragment like others; a completion endpoint has no
/// system prompt.
#[test]
fn completions_show_what_is_sent() {
    let text = r#"
llm_mock({text: "1", match: "let x = "})
println(llm_completion("let x = ", "", "Rust.", {provider: "anthropic", system_appendix: "App."}).text)
llm_mock({text: "2"})
println(llm_completion("let x = ", ";", nil, {provider: "anthropic", _system_fragments: [{id: "mine", body: "Own."}]}).text)
llm_completion("let x = ", "", "Rust.", {provider: "anthropic"})
llm_mock({text: "3"})
println(llm_completion("let x = ", "", "Rust.", {provider: "openai", model: "gpt-4o"}).text)
println(llm_mock_calls().map({ c -> c.messages.map({ m -> m.content }) }))
"#;
    let folder = folder(&[("main.harn", text)]);
    let ran = harn_in(folder.path(), &["explain", "prompt", "--json", "main.harn"]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    let calls = document["data"]["calls"].as_array().unwrap();
    let ids = |n: usize| -> Vec<&str> {
        calls[n]["fragments"].as_array().unwrap().iter().map(|f| f["id"].as_str().unwrap()).collect()
    };
    assert_eq!(ids(0), ["host:system_appendix", "primary", "call:completion_instruction"], "{}", ran.shown());
    assert_eq!(ids(1), ["mine", "call:completion_instruction"]);
    assert_eq!(ids(2), ["primary", "call:completion_instruction"]);
    assert_eq!((ids(3), &calls[3]["system"]), (Vec::new(), &Value::Null));
    let system = calls[1]["system"].as_str().unwrap();
    assert!(system.starts_with("Own.\n\nContinue the text") && system.contains("under SUFFIX"), "{system}");
    assert_eq!(calls[1]["messages"][0]["content"], "PREFIX:\nlet x = \n\nSUFFIX:\n;");
    let said = "[[let x = ], [let x = , ;], [let x = ], [let x = ]]";
    assert!(ran.err.starts_with("1\n2\n") && ran.err.contains(&format!("3\n{said}\n")), "{}", ran.err);
    assert!(
        ran.err.contains("the completion endpoint of provider \"openai\" takes no system text"),
        "{}",
        ran.err
    );
}

#[test]
fn a_program_without_calls_says_so() {
    let ran = explain("println(1)\n", &[]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "main.harn: no model calls\n", "1\n"));
    let (code, document) = json("println(1)\n", &[]);
    assert_eq!((code, &document["data"]["calls"]), (0, &Value::Array(Vec::new())));
}

#[test]
fn a_program_that_fails_midway_shows_the_calls_before() {
    let text = "llm_call(\"Hi\", \"Base.\", {provider: \"mock\"})\nthrow \"no more\"\n";
    let ran = explain(text, &[]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("Call 1: mock/"), "{}", ran.out);
    assert!(ran.err.starts_with("error: Thrown: no more\n  --> main.harn:2:7\n"), "{}", ran.err);
    let (code, document) = json(text, &[]);
    assert_eq!(
        (code, &document["ok"], &document["error"]["code"]),
        (1, &false.into(), &"runtime_error".into())
    );
    assert_eq!(document["error"]["message"], "Thrown: no more");
    assert_eq!(document["error"]["details"][0]["span"]["line"], 2);
    assert_eq!(document["data"]["calls"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_cannot_run_is_an_error() {
    let ran = explain("let = 1\n", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("--> main.harn:1:5"), "{}", ran.err);
    let (code, document) = json("printl(1)\n", &[]);
    assert_eq!((code, &document["error"]["code"]), (1, &"diagnostics".into()));

    let empty = folder(&[]);
    let ran = harn_in(empty.path(), &["explain", "prompt", "gone.harn"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.starts_with("Error reading gone.harn: "), "{}", ran.err);
    let ran = harn_in(empty.path(), &["explain", "prompt", "--json", "gone.harn"]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &document["error"]["code"]), (1, &"unreadable".into()));
    assert_eq!(harn_in(empty.path(), &["explain", "prompt"]).code, 2);
}

#[test]
fn the_program_gets_arguments_input_and_its_exit_code() {
    let text = "println(argv)\nllm_call(argv[0], nil, {provider: \"mock\"})\nexit(7)\n";
    let ran = explain(text, &["--", "a", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (7, "[a, --json]\n"));
    assert!(
        ran.out.contains("  1 message, the last from user: a\n\nNo system prompt: 0 of 0 fragments\n"),
        "{}",
        ran.out
    );
    let ran =
        harn_with(&["explain", "prompt", "-"], "llm_call(\"Hi\", \"From stdin.\", {provider: \"mock\"})");
    assert!(ran.code == 0 && ran.out.contains("From stdin."), "{}", ran.shown());
}

#[test]
fn an_executed_program_may_itself_be_named_prompt() {
    // `prompt` is not a builtin, so the name is available for this command.
    let ran = crate::common::harn(&["explain", "prompt_explain"]);
    assert!(ran.code == 0 && ran.out.starts_with("prompt_explain("), "{}", ran.shown());
}

/// The schema of the answer is sent in the form that the provider supports together with tools.
#[test]
fn the_way_of_the_schema_is_named() {
    let way = |options: &str| {
        let text = format!(
            r#"let t = {{name: "t", description: "T", parameters: {{a: "string"}}, handler: {{ args -> "ok" }}}}
llm_call("Hi", nil, {{schema: {{type: "dict", additional_properties: false, properties: {{a: {{type: "int"}}}}, required: ["a"]}}, {options}}})"#
        );
        let (code, document) = json(&text, &[]);
        let call = &document["data"]["calls"][0];
        assert_eq!(code, 0, "{document}");
        let tools: Vec<&str> = call["tools"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        format!("{} {}", call["answer"].as_str().unwrap_or("none"), tools.join(","))
    };
    let cases = [
        (r#"provider: "openai", model: "gpt-4o""#, ["format ", "format t", "prompt "]),
        (r#"provider: "anthropic", model: "claude-sonnet-4-5""#, ["format ", "format t", "prompt "]),
        (r#"provider: "anthropic", model: "claude-3-5-haiku-latest""#, ["tool ", "tool t", "prompt "]),
        (r#"provider: "gemini", model: "gemini-2.5-flash""#, ["format ", "tool t,json_response", "prompt "]),
        (
            r#"provider: "groq", model: "llama-3.3-70b-versatile""#,
            ["format ", "tool t,json_response", "prompt "],
        ),
        (r#"provider: "ollama", model: "qwen3:8b""#, ["format ", "tool t,json_response", "prompt "]),
    ];
    for (model, ways) in cases {
        let native = format!("{model}, tools: [t], tool_format: \"native\"");
        let text = format!("{model}, tools: [t], tool_format: \"text\"");
        assert_eq!([way(model), way(&native), way(&text)], ways, "{model}");
    }
    let off = format!("{}, tools: [t], tool_format: \"native\", tool_choice: \"none\"", cases[3].0);
    assert_eq!(way(&off), "prompt t");
    assert!(
        explain(r#"llm_call("Hi", nil, {provider: "openai", model: "gpt-4o", schema: {type: "dict"}})"#, &[])
            .out
            .contains("schema of the answer: response format of the provider")
    );
}
