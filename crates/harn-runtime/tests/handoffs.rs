//! Handoffs over every wire format: the strict servers reject a history that their API would reject.

use harn_strict_servers::cases::{Case, Stop, cases};
use harn_strict_servers::{ENV, Format, formats};
use harn_value::{Data as Json, json};

use crate::wire::{Seen, http_bytes, serve};

const PROGRAM: &str = r####"
tool look(at: string = "here") -> string {
  description "Looks"
  "seen there"
}
let back = agent("back", {system: "You are the back office.", llm_retries: 0, ...BACK(look)})
let r = agent_loop("The question.", "You are the front desk.", {
  ...OPTIONS, tools: [look], tool_format: FORMAT, llm_retries: 0, name: "front",
  handoffs: [{agent: back, history: HISTORY}],
})
println(json_stringify({
  status: r.status, last: r.last_agent, text: r.final_text, used: r.tools_used, handoffs: r.handoffs,
  input: r.llm.input_tokens, calls: r.trace.llm_calls, messages: len(r.transcript.messages),
}))
"####;

/// Returns the reply of a server in the wire format.
fn reply(
    format: &dyn Format,
    text: &str,
    call: Option<(&'static str, &'static str, Json)>,
    native: bool,
) -> Vec<u8> {
    let all = cases();
    let mut case: Case =
        all.iter().find(|case| !case.thinks && case.reply.calls.is_empty()).cloned().unwrap();
    let text = match &call {
        Some((_, name, arguments)) if !native => {
            format!("{text}\n<tool_call>{name}({arguments})</tool_call>")
        }
        _ => text.to_owned(),
    };
    case.reply.text = Box::leak(text.into_boxed_str());
    case.reply.usage = [10, 2, 0, 0];
    case.reply.stop = Stop::End;
    if let Some(call) = call.filter(|_| native) {
        case.reply.calls = vec![call];
        case.reply.stop = Stop::Tools;
    }
    match format.whole(&case) {
        Some(whole) => http_bytes("application/json", whole.to_string().as_bytes()),
        None => {
            let (kind, body) = format.stream(&case).unwrap();
            http_bytes(kind, &body)
        }
    }
}

/// Runs the program with a server; `None` if its model does not support native tools.
fn run(format: &dyn Format, native: bool, history: &str, with_tools: bool) -> Option<(Json, Vec<Seen>)> {
    // Without tools, Ollama receives a completion request, which has another format.
    let with_tools = with_tools || format.options()["provider"] == "ollama";
    let what = format!("{}, native {native}, history {history}, tools {with_tools}", format.name());
    let replies = vec![
        reply(format, "I look.", Some(("id_1", "look", json!({}))), native),
        reply(format, "", Some(("id_2", "transfer_to_back", json!({"message": "be kind"}))), native),
        reply(format, "All done.", None, native),
    ];
    let (url, requests) = serve(replies);
    let mut options = format.options();
    options["base_url"] = url.into();
    options["stream"] = format.whole(&cases()[0]).is_none().into();
    let given = options.to_string().replace('$', "\\$");
    let tools = if native { "\"native\"" } else { "\"text\"" };
    let back = if with_tools { "{tools: [look]}" } else { "{}" };
    let program = format!(
        "let OPTIONS = json_parse({given:?})\nlet FORMAT = {tools}\nlet HISTORY = {history}\nfn BACK(look) {{\n  {back}\n}}\n{PROGRAM}"
    );
    let place = tempfile::tempdir().unwrap();
    let ran = crate::common::run_with("test.harn", &program, place.path(), ENV, None);
    if native && ran.error.as_deref().is_some_and(|why| why.contains("option `tools` is not supported")) {
        return None;
    }
    assert_eq!(ran.error, None, "{what}: {}{}", ran.output, ran.errors);
    let out: Json =
        serde_json::from_str(&ran.output).unwrap_or_else(|e| panic!("{what}: {e}: {}", ran.output));
    assert_eq!(out["status"], "done", "{what}: {out:#}");
    assert_eq!((&out["last"], &out["text"]), (&json!("back"), &json!("All done.")), "{what}");
    assert_eq!(out["used"], json!(["look"]), "{what}");
    assert_eq!(out["handoffs"], json!([{"from": "front", "to": "back", "message": "be kind"}]), "{what}");
    // The usage of both agents.
    assert_eq!((out["calls"].as_i64(), out["input"].as_i64()), (Some(3), Some(30)), "{what}: {out}");
    Some((out, requests.iter().take(3).collect()))
}

#[test]
fn every_server_takes_the_history_of_a_handoff() {
    let mut ran = 0;
    for format in formats() {
        for (native, history, with_tools) in [
            (true, "\"full\"", true),
            (true, "\"full\"", false),
            (true, "\"messages\"", false),
            (true, "\"task\"", false),
            (true, "{ messages -> messages[0:1] }", true),
            (false, "\"full\"", false),
            (false, "\"messages\"", true),
        ] {
            let Some((_, requests)) = run(&*format, native, history, with_tools) else { continue };
            ran += 1;
            let what = format!("{}, native {native}, history {history}", format.name());
            let [_, second, third] = requests.as_slice() else {
                panic!("{what}: {} requests", requests.len())
            };
            let (before, after) = (second.body.to_string(), third.body.to_string());
            assert!(
                before.contains("the front desk") && !before.contains("the back office"),
                "{what}: {before}"
            );
            assert!(
                after.contains("the back office") && !after.contains("the front desk"),
                "{what}: {after}"
            );
            assert!(after.contains("The question."), "{what}: {after}");
            let sees = (after.contains("I look."), after.contains("seen there"));
            let expected = match history {
                "\"full\"" => (true, true),
                "\"messages\"" => (true, false),
                _ => (false, false),
            };
            assert_eq!(sees, expected, "{what}: {after}");
            assert!(after.contains("be kind"), "{what}: {after}");
        }
    }
    assert!(ran > 80, "{ran} runs");
}
