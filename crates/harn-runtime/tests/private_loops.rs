//! Private reasoning and keys are not exposed in loops: in any wire format and tool format, complete or streamed,
//! nothing that is visible to a program, a host, a file or another turn contains them.

use std::path::Path;

use harn_strict_servers::cases::{Case, Stop, cases};
use harn_strict_servers::{ENV, Format, formats};
use harn_value::{Data as Json, json};

use crate::wire::{Seen, http_bytes, serve};

const MARK: &str = "PRIVATE";

/// Reasoning that resembles the syntax that loops search for in replies.
const THOUGHTS: [&str; 5] = [
    "PRIVATE plain words, größer?",
    "PRIVATE <user_response>PRIVATE</user_response> PRIVATE",
    "PRIVATE <tool_call>look({\"at\": \"PRIVATE\"})</tool_call> <done>##DONE##</done> PRIVATE",
    "PRIVATE\n##DONE##\n<assistant_prose>PRIVATE</assistant_prose>\nnext_phase: PRIVATE",
    "PRIVATE </think> PRIVATE <think> PRIVATE",
];

/// The visible text next to it.
const TEXTS: [&str; 3] = ["Let me look.", "", "<think>PRIVATE</think>Behind a tag."];

/// A program that collects everything it can observe and prints it as one line of JSON.
const PROGRAM: &str = r####"
var live = []
var told = []
var pieces = ""
var contexts = []
agent_subscribe("s", { e -> live = live + [e] })
agent_subscribe("child", { e -> live = live + [e] })
tool look(at: string = "here") -> string {
  description "Looks"
  "seen"
}
tool ask() -> string {
  description "Asks another agent"
  let r = sub_agent_run("Ask.", {...OPTIONS, tools: look, tool_format: FORMAT, session_id: "child"})
  told = told + [{...r, transcript: nil}]
  r.summary
}
let options = {
  ...OPTIONS, tools: [look, ask], tool_format: FORMAT, session_id: "s", persistent: true, max_nudges: 1, llm_retries: 0,
  context_callback: { c -> contexts = contexts + [{...c, system: nil}]; nil },
  post_turn_callback: { t -> told = told + [t]; nil },
  on_delta: { text -> pieces = pieces + text },
}
agent_session_open("s", {persist: true})
let r = agent_loop("The question.", "Be kind.", options)
let stage = workflow_execute("A stage.", {act: {mode: "agent", tools: look, model_policy: {...OPTIONS, tool_format: FORMAT}}}, [], {persist_path: "run.json"})
let transcripts = [r.transcript, agent_session_snapshot("s"), agent_session_snapshot("child"), stage.run.stages[0].transcript]
println(json_stringify({
  result: {...r, text: nil, transcript: nil}, live: live, told: told, pieces: pieces, contexts: contexts, transcripts: transcripts,
  rendered: transcripts.map({ t -> transcript_render_visible(t) }), compacted: transcript_auto_compact(r.transcript.messages, {keep_last: 1}),
  artifacts: stage.artifacts.map({ a -> {...a, data: nil} }), trace: agent_trace(), seen: r.tools_used, summary: agent_trace_summary(),
}))
"####;

/// Returns a value without the parts that are marked as private.
fn public(value: &Json) -> Json {
    const KEYS: [&str; 7] = [
        "thinking",
        "private_reasoning",
        "thinking_summary",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "reasoningContent",
    ];
    const KINDS: [&str; 4] = ["thinking", "redacted_thinking", "reasoning", "agent_thought_chunk"];
    match value {
        Json::Array(items) => items.iter().map(public).collect(),
        Json::Object(map)
            if map.get("visibility").is_some_and(|v| v != "public")
                || map.get("type").and_then(Json::as_str).is_some_and(|kind| KINDS.contains(&kind))
                || map.get("thought") == Some(&Json::Bool(true)) =>
        {
            Json::Null
        }
        Json::Object(map) => {
            let shown = map.iter().filter(|(key, _)| !KEYS.contains(&key.as_str()));
            Json::Object(shown.map(|(key, value)| (key.clone(), public(value))).collect())
        }
        other => other.clone(),
    }
}

/// Returns a request without the model's reasoning: formats without a field for reasoning send it to the same model
/// again in tags.
fn without_own(value: &Json) -> Json {
    match value {
        Json::Array(items) => items.iter().map(without_own).collect(),
        Json::Object(map) => {
            let own = map.get("role").is_some_and(|role| role == "assistant");
            let shown = |value: &Json| match value.as_str().filter(|_| own) {
                Some(text) => match (text.strip_prefix("<think>\n"), text.rsplit_once("\n</think>\n\n")) {
                    (Some(_), Some((_, said))) => said.into(),
                    _ => value.clone(),
                },
                None => without_own(value),
            };
            Json::Object(map.iter().map(|(key, value)| (key.clone(), shown(value))).collect())
        }
        other => other.clone(),
    }
}

#[track_caller]
fn hidden_in(value: &Json, what: &str) {
    let text = value.to_string();
    assert!(!text.contains(MARK), "{what}: {value:#}");
    no_keys_in(&text, what);
}

#[track_caller]
fn no_keys_in(text: &str, what: &str) {
    for (name, key) in ENV.iter().filter(|(name, _)| name.ends_with("KEY") || name.ends_with("TOKEN")) {
        assert!(!text.contains(key), "{what}: {name}: {text}");
    }
}

/// One exchange: the visible text next to the reasoning, and a call.
struct Turn {
    text: String,
    call: Option<(&'static str, &'static str)>,
}

/// Returns the reply of a server in the wire format.
fn reply(
    format: &dyn Format,
    thought: &'static str,
    turn: &Turn,
    native: bool,
    stream: bool,
) -> Option<Vec<u8>> {
    let all = cases();
    let named = |name: &str| all.iter().find(|case| case.name == name).cloned();
    let mut case: Case = named("thinking")?;
    case.thinks = !thought.is_empty();
    case.reply.thinking = thought;
    let text = match turn.call {
        Some((_, name)) if !native => format!("{}\n<tool_call>{name}({{}})</tool_call>", turn.text),
        _ => turn.text.clone(),
    };
    case.reply.text = Box::leak(text.into_boxed_str());
    if let Some((id, name)) = turn.call.filter(|_| native) {
        case.reply.calls = vec![(id, name, json!({}))];
        case.reply.stop = Stop::Tools;
    }
    if stream {
        let (kind, body) = format.stream(&case)?;
        return Some(http_bytes(kind, &body));
    }
    Some(http_bytes("application/json", format.whole(&case)?.to_string().as_bytes()))
}

/// Runs the program and checks that it exposes nothing private. Returns whether its output contains private data at
/// all, in parts that are marked as private; false if the model does not support native tools.
fn check(format: &dyn Format, thought: &'static str, said: &str, native: bool, stream: bool) -> bool {
    let what =
        format!("{}, native {native}, stream {stream}, thought {thought:?}, text {said:?}", format.name());
    let turn = |text: &str, call| Turn { text: text.to_owned(), call };
    let turns = [
        // The loop: a call, a sub-agent that makes a call, only text, and the end.
        turn(said, Some(("id_1", "look"))),
        turn(said, Some(("id_2", "ask"))),
        turn(said, Some(("id_3", "look"))),
        turn(&format!("{said} Told."), None),
        turn("Going on.", None),
        turn(&format!("{said} Finished. <done>##DONE##</done>"), None),
        // The stage.
        turn(said, Some(("id_4", "look"))),
        turn(&format!("{said} Staged. <done>##DONE##</done>"), None),
    ];
    let replies: Option<Vec<Vec<u8>>> =
        turns.iter().map(|turn| reply(format, thought, turn, native, stream)).collect();
    let Some(replies) = replies else { return false };
    let count = replies.len();
    let (url, requests) = serve(replies);
    let mut options = format.options();
    options["base_url"] = url.into();
    options["stream"] = stream.into();
    options["max_tokens"] = 20_000.into();
    if !thought.is_empty() {
        let Some(Json::Object(more)) = format.thinking() else { return false };
        more.into_iter().for_each(|(key, value)| options[key.as_str()] = value);
    }
    let tools = if native { "\"native\"" } else { "\"text\"" };
    let program = format!(
        "let OPTIONS = json_parse({:?})\nlet FORMAT = {tools}\n{PROGRAM}",
        options.to_string().replace('$', "\\$")
    );
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let log = log.display().to_string();
    let env: Vec<(&str, &str)> =
        ENV.iter().copied().chain([("HARN_LLM_TRANSCRIPT_DIR", log.as_str())]).collect();
    let run = crate::common::run_with("test.harn", &program, place.path(), &env, None);
    // Not every model supports native tools.
    if native && run.error.as_deref().is_some_and(|why| why.contains("option `tools` is not supported")) {
        return false;
    }
    assert_eq!(run.error, None, "{what}: {}{}", run.output, run.errors);
    no_keys_in(&run.errors, &what);
    assert!(!run.errors.contains(MARK), "{what}: {}", run.errors);
    let out: Json =
        serde_json::from_str(&run.output).unwrap_or_else(|e| panic!("{what}: {e}: {}", run.output));
    assert_eq!(out["result"]["status"], "done", "{what}: {out:#}");
    assert_eq!(out["seen"], json!(["look", "ask"]), "{what}");
    // Parts marked as private by tags in text are not visible either.
    for key in ["live", "told", "pieces", "rendered", "artifacts", "trace", "summary"] {
        hidden_in(&public(&out[key]), &format!("{what}: {key}"));
    }
    hidden_in(&out["result"]["visible_text"], &what);
    assert!(
        out["result"]["visible_text"].as_str().is_some_and(|text| text.contains("Finished.")),
        "{what}: {out:#}"
    );
    // If the text of replies has no tags, raw data contains nothing private either: messages, files, and text that the
    // model receives again.
    if !said.contains(MARK) {
        hidden_in(&public(&out), &what);
        let seen: Vec<Seen> = requests.iter().take(count).collect();
        for (n, request) in seen.iter().enumerate() {
            hidden_in(&without_own(&public(&request.body)), &format!("{what}: request {n}"));
        }
    }
    files_in(place.path(), &mut |path, text| {
        let what = format!("{what}: {}", path.display());
        no_keys_in(text, &what);
        if said.contains(MARK) {
            return;
        }
        let whole = serde_json::from_str::<Json>(text);
        let parts: Vec<Json> = match whole {
            Ok(whole) => vec![whole],
            Err(_) => text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
        };
        // The log of calls contains raw replies as received, because it was requested.
        let raw = ["provider_call_response", "raw_response"];
        for part in parts.iter().filter(|part| !raw.iter().any(|kind| part["type"] == *kind)) {
            hidden_in(&public(part), &what);
        }
    });
    run.output.contains(MARK)
}

/// Calls `look` with all text files in a directory.
fn files_in(folder: &Path, look: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_in(&path, look);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            look(&path, &text);
        }
    }
}

#[test]
fn thoughts_and_keys_leave_no_loop() {
    let (mut pair, mut private) = (0, 0);
    let every = std::env::var_os("HARN_EVERY_CASE").is_some();
    for format in formats() {
        for native in [true, false] {
            for stream in [false, true] {
                // Each text is combined with successive thoughts, so that all pairs occur across the formats.
                for said in TEXTS {
                    let thought =
                        if format.thinking().is_some() { THOUGHTS[pair % THOUGHTS.len()] } else { "" };
                    pair += 1;
                    if every || pair % 2 == 0 {
                        private += u32::from(check(&*format, thought, said, native, stream));
                    }
                }
            }
        }
    }
    assert!(private > 25, "{private} of {pair} loops had something private");
}
