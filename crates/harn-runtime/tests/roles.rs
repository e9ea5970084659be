//! The role runtime: requests to models in each wire format, and stored data.

use harn_value::{Data as Json, json};

use crate::wire::{anthropic, http, openai_call, openai_text, serve};

/// Returns a program with a runtime of one specialist whose provider is at `url`; it prints the prompt, then the text
/// of the run.
fn program(provider: &str, model: &str, url: &str, more: &str) -> String {
    format!(
        r#"
let prompt = layered_prompt({{identity: "You add: ünïcode, `ticks`.", safety: ["Never guess."], domain_knowledge: {{b: 1, a: [2.0]}}}})
let add = define_tool("add", {{input_schema: {{a: "int", b: "int"}}, description: "Adds.", approval: "never"}}, {{ args, ctx -> args.a + args.b }})
let s = define_specialist("s", {{model: {{id: "{model}", provider: "{provider}"}}, prompt: prompt, tools: [add], stateful: true}})
let spec = define_runtime({{tenant: define_tenant("acme", "v1"), agents: [s], providers: {{{provider}: {{base_url: "{url}"{more}}}}}}})
let rt = create_runtime(spec)
println(json_stringify(spec.agents[0].system_prompt))
for question in ["2 + 3?", "And?"] {{
  for e in rt.run_specialist("s", question, {{thread_id: "t"}}) {{
    if e.type == "text" {{ print(e.text) }}
    if e.type == "error" {{ print(e.error.message) }}
  }}
  println("")
}}
"#
    )
}

/// Runs a program; returns the prompt and the answer.
fn run(text: &str, env: &[(&str, &str)]) -> (Json, String) {
    let printed = crate::common::output(text, env);
    let (prompt, said) = printed.split_once('\n').unwrap();
    (serde_json::from_str(prompt).unwrap(), said.to_owned())
}

#[test]
fn openai_style_gets_the_prompt_to_the_byte() {
    let call = openai_call("add", "{\"a\": 2, \"b\": 3}");
    let (url, requests) = serve(vec![call, openai_text("It is 5."), openai_text("Still 5.")]);
    let (prompt, said) =
        run(&program("openai", "gpt-4o", &format!("{url}/v1"), ""), &[("OPENAI_API_KEY", "sk-x")]);
    assert_eq!(said, "It is 5.\nStill 5.\n");
    let one = requests.recv().unwrap().body;
    assert_eq!(one["messages"][0], json!({"role": "system", "content": prompt}));
    assert_eq!(one["messages"][1]["content"], "2 + 3?");
    assert_eq!(one["tools"][0]["function"]["name"], "add");
    let two = requests.recv().unwrap().body;
    assert_eq!(two["messages"][0], one["messages"][0]);
    assert_eq!(two["messages"][3]["content"], "5", "the tool's result");
    let three = requests.recv().unwrap().body;
    let said: Vec<_> = three["messages"].as_array().unwrap().iter().map(|m| m["content"].clone()).collect();
    assert_eq!(said, [prompt, json!("2 + 3?"), json!("It is 5."), json!("And?")], "system, history, prompt");
}

#[test]
fn anthropic_gets_the_prompt_to_the_byte() {
    let call = json!({"type": "tool_use", "id": "tu_1", "name": "add", "input": {"a": 2, "b": 3}});
    let text = |text: &str| anthropic(&[json!({"type": "text", "text": text})], "end_turn");
    let (url, requests) = serve(vec![anthropic(&[call], "tool_use"), text("It is 5."), text("Still 5.")]);
    let (prompt, said) = run(
        &program("anthropic", "claude-sonnet-4-20250514", &format!("{url}/v1"), ""),
        &[("ANTHROPIC_API_KEY", "sk-x")],
    );
    assert_eq!(said, "It is 5.\nStill 5.\n");
    let one = requests.recv().unwrap().body;
    let system = match &one["system"] {
        Json::Array(blocks) => blocks.iter().map(|b| b["text"].as_str().unwrap()).collect::<String>(),
        other => other.as_str().unwrap().to_owned(),
    };
    assert_eq!(Json::from(system), prompt);
    assert_eq!(one["tools"][0]["name"], "add");
}

#[test]
fn bedrock_gets_the_prompt_to_the_byte() {
    let refusal = || http("400 Bad Request", "application/json", "", "{\"message\": \"no\"}");
    let (url, requests) = serve(vec![refusal(), refusal()]);
    let env =
        [("AWS_ACCESS_KEY_ID", "AKIA"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_REGION", "us-east-1")];
    let (prompt, _) = run(&program("bedrock", "anthropic.claude-3-5-sonnet-20240620-v1:0", &url, ""), &env);
    let one = requests.recv().unwrap().body;
    assert_eq!(one["system"][0]["text"], prompt, "{one}");
    assert_eq!(one["messages"][0]["content"][0]["text"], "2 + 3?");
}

#[test]
fn a_spec_names_the_variable_of_the_key_and_the_region() {
    let text = |text: &str| anthropic(&[json!({"type": "text", "text": text})], "end_turn");
    let (url, requests) = serve(vec![text("5."), text("Yes.")]);
    let env = [("TENANT_KEY", "sk-tenant"), ("ANTHROPIC_API_KEY", "sk-process")];
    let more = ", api_key_env: \"TENANT_KEY\"";
    let (_, said) = run(&program("anthropic", "claude-sonnet-4-20250514", &format!("{url}/v1"), more), &env);
    assert_eq!(said, "5.\nYes.\n");
    let headers = requests.recv().unwrap().headers;
    assert!(headers.contains("x-api-key: sk-tenant"), "{headers}");

    let refusal = || http("400 Bad Request", "application/json", "", "{\"message\": \"no\"}");
    let (url, requests) = serve(vec![refusal(), refusal()]);
    let env =
        [("AWS_ACCESS_KEY_ID", "AKIA"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_REGION", "us-east-1")];
    let model = "anthropic.claude-3-5-sonnet-20240620-v1:0";
    run(&program("bedrock", model, &url, ", region: \"eu-west-3\""), &env);
    let headers = requests.recv().unwrap().headers;
    assert!(headers.contains("/eu-west-3/bedrock/"), "{headers}");
}

/// Programs that store data in a file, which is not possible with a system layer in memory.
#[test]
fn what_is_kept_is_found_again() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "harn") {
            let text = std::fs::read_to_string(&path).unwrap();
            let expected = std::fs::read_to_string(path.with_extension("expected")).unwrap();
            assert_eq!(crate::common::output(&text, &[]), expected, "{}", path.display());
            count += 1;
        }
    }
    assert_eq!(count, 5);
}
