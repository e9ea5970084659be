//! One delegated stage: a loop or a single call over a task and artifacts.

use harn_agent::artifact::artifact;
use harn_agent::registry::is_registry;
use harn_agent::workflow::Node;
use harn_llm::Conversation;
use harn_prompt::Prose;
use harn_stdlib::timestamp_now;
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Value};
use harn_vm::{Cx, Result};

use crate::convert::{OrThrow, entry, text, thrown, to_json};
use crate::driver::run_loop;
use crate::llm_embedder::{new_id, prompts_of};
use crate::session::Sessions;

/// Iterations and nudges of a stage that says nothing of them.
const ITERATIONS: i64 = 16;
const NUDGES: i64 = 3;

/// Fields of a node that only a workflow knows what to do with.
const OF_WORKFLOWS: [&str; 7] = [
    "verify",
    "map_policy",
    "join_policy",
    "reduce_policy",
    "escalation_policy",
    "retry_policy",
    "context_policy",
];

/// What a stage came to.
pub(crate) struct StageOutput {
    /// The result of its loop or call.
    pub(crate) result: Json,
    /// Its conversation.
    pub(crate) transcript: Json,
    /// What it leaves.
    pub(crate) artifacts: Vec<Json>,
}

/// Looks at a node before it is run.
///
/// # Errors
/// It is no dict, or needs a workflow around it.
pub(crate) fn check(node: &Value) -> std::result::Result<(), String> {
    if node.to_dict().is_none() {
        return Err(format!("config.node must be a dict, got {}", node.type_name()));
    }
    let kind = text(&entry(node, "kind")).unwrap_or_else(|| "stage".to_owned());
    if kind != "stage" && kind != "subagent" {
        return Err(format!("a node of kind '{kind}' runs in a workflow only; give it as a graph")); // prose-ok: diagnostic
    }
    if let Some(mode) = text(&entry(node, "mode"))
        && mode != "llm"
        && mode != "agent"
    {
        return Err(format!("node.mode must be llm or agent, got '{mode}'"));
    }
    let stray = OF_WORKFLOWS.into_iter().find(|key| !entry(node, key).is_nil());
    if let Some(key) = stray {
        return Err(format!("node.{key} has a meaning in a workflow only; give the node as a graph")); // prose-ok: diagnostic
    }
    check_data("node.metadata", node)?;
    let name = text(&entry(node, "id")).unwrap_or_else(|| "stage".to_owned());
    Node::normalise(&name, &to_json(node)).map(drop)
}

/// What a node or graph says about itself is kept in records: it must be data.
///
/// # Errors
/// It is not.
pub(crate) fn check_data(what: &str, holder: &Value) -> std::result::Result<(), String> {
    harn_stdlib::check_data(what, &entry(holder, "metadata")).map_err(|error| error.caught().to_string())
}

/// Looks at a conversation that work is to begin with.
///
/// # Errors
/// It is none.
pub(crate) fn check_transcript(value: &Value) -> std::result::Result<(), String> {
    let given = to_json(value);
    let messages = match &given {
        Json::Null => return Ok(()),
        Json::Object(map) => map.get("messages").and_then(Json::as_array),
        _ => None,
    };
    let wrong = || format!("transcript must be a transcript, got {}", value.type_name());
    let messages = messages.filter(|list| list.iter().all(Json::is_object)).ok_or_else(wrong)?;
    Conversation::from_json(messages).map(drop).map_err(|error| format!("transcript: {error}"))
}

/// Runs a stage.
///
/// # Errors
/// What its contract says of artifacts, and what its loop or call throws.
pub(crate) async fn run(
    cx: &Cx,
    node: &Value,
    task: &str,
    artifacts: &[Json],
    transcript: &Json,
) -> Result<StageOutput> {
    let name = text(&entry(node, "id")).unwrap_or_else(|| "stage".to_owned());
    let contract = to_json(&entry(node, "input_contract"));
    let kinds: Vec<&str> =
        contract["input_kinds"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let fits = |artifact: &&Json| {
        kinds.is_empty() || artifact["kind"].as_str().is_some_and(|kind| kinds.contains(&kind))
    };
    let selected: Vec<Json> = artifacts.iter().filter(fits).cloned().collect();
    let (least, most) = (contract["min_inputs"].as_u64(), contract["max_inputs"].as_u64());
    let count = selected.len() as u64;
    if let Some(least) = least.filter(|least| count < *least) {
        return Err(thrown(format!("workflow stage {name} requires at least {least} input artifacts")));
    }
    if let Some(most) = most.filter(|most| count > *most) {
        return Err(thrown(format!("workflow stage {name} accepts at most {most} input artifacts")));
    }
    let given = entry(node, "model_policy");
    let mut options = given.to_dict().map(|dict| (*dict).clone()).unwrap_or_default();
    if contract["require_transcript"] == true && transcript.is_null() && entry(&given, "session_id").is_nil()
    {
        return Err(thrown(format!(
            "workflow stage {name} requires an existing session (it was given none)"
        )));
    }
    let instructions = match text(&entry(node, "prompt")) {
        Some(prompt) => format!("{prompt}\n\n{task}"),
        None => task.to_owned(),
    };
    let bindings = Map::from_iter([
        ("label".to_owned(), text(&entry(node, "task_label")).unwrap_or_else(|| "Task".to_owned()).into()),
        ("instructions".to_owned(), instructions.into()),
        ("verification".to_owned(), json!([])),
        ("repair".to_owned(), Json::Null),
        ("context".to_owned(), harn_agent::artifact::context(&selected, &json!({})).into()),
    ]);
    let prompt = prompts_of(cx).render("std/workflow/stage_prompt.harn.prompt", &bindings).or_throw()?;
    let prompt = Value::str(prompt.trim());
    let system = entry(node, "system");
    // A conversation goes on in a session of its own.
    let session_id = match text(&entry(&given, "session_id")) {
        Some(id) => id,
        None => format!("agent_session_{}", new_id(cx.vm())),
    };
    let session = cx.state::<Sessions>().named(&session_id);
    if !transcript.is_null() && session.history.borrow().messages.is_empty() {
        let messages = transcript["messages"].as_array().into_iter().flatten();
        let mut history = session.history.borrow_mut();
        history.messages = Conversation::from_json(messages).map_err(|e| thrown(e.0))?;
        history.summary = transcript["summary"].as_str().map(str::to_owned);
    }
    options.insert("session_id", session_id.as_str());
    let schema = entry(&entry(node, "output_contract"), "schema");
    if !schema.is_nil() {
        options.insert("output_schema", schema);
        options.insert("output_validation", "error");
    }
    let tools = entry(node, "tools");
    let has_tools = match tools.as_list() {
        Some(list) => !list.is_empty(),
        None => is_registry(&tools),
    };
    let agent = has_tools || text(&entry(node, "mode")).as_deref() == Some("agent");
    let (result, said) = if agent {
        let mut defaults = vec![
            ("persistent", Value::from(true)),
            ("max_iterations", ITERATIONS.into()),
            ("max_nudges", NUDGES.into()),
        ];
        for (key, from) in [
            ("tools", "tools"),
            ("done_sentinel", "done_sentinel"),
            ("exit_when_verified", "exit_when_verified"),
            ("policy", "capability_policy"),
            ("approval_policy", "approval_policy"),
        ] {
            defaults.push((key, entry(node, from)));
        }
        compaction(&entry(node, "auto_compact"), &mut defaults);
        for (key, value) in defaults {
            if !value.is_nil() && !options.contains(key) {
                options.insert(key, value);
            }
        }
        let ended = run_loop(cx, &prompt, &system, &options.into()).await?;
        (ended.result, ended.last_visible)
    } else {
        let Some(call) = cx.vm().builtin("llm_call") else { return Err(thrown("llm_call is not there")) };
        for key in ["max_iterations", "max_nudges", "nudge"] {
            options.remove(key);
        }
        let result = to_json(&cx.call(&call.value(), [prompt, system, Value::from(options)]).await?);
        let said = result["visible_text"].as_str().unwrap_or_default().to_owned();
        (result, said)
    };
    let output = to_json(&entry(&entry(node, "output_contract"), "output_kinds"));
    let kind = output.get(0).and_then(Json::as_str).unwrap_or("artifact");
    let lineage: Vec<&Json> = selected.iter().map(|artifact| &artifact["id"]).collect();
    let artifact = json!({
        "_type": "artifact", "id": format!("artifact_{}", new_id(cx.vm())), "kind": kind,
        "title": format!("stage {name} output"), "text": said, "data": result, "created_at": timestamp_now(cx),
        "lineage": lineage, "stage": name, "estimated_tokens": said.len() / 4, "metadata": {},
    });
    let transcript = match result["transcript"].clone() {
        Json::Null => session.snapshot(&|| new_id(cx.vm())),
        own => own,
    };
    // The conversation was the work's own: it is in the result.
    if entry(&given, "session_id").is_nil() {
        cx.state::<Sessions>().close(&session_id);
    }
    let mut shown = artifact;
    if let Some(data) = shown["data"].as_object_mut() {
        data.shift_remove("transcript");
    }
    Ok(StageOutput { result, transcript, artifacts: vec![shown] })
}

/// The node's words for compaction in those of a loop.
fn compaction(auto: &Value, out: &mut Vec<(&'static str, Value)>) {
    let named = [
        ("enabled", "auto_compact"),
        ("token_threshold", "compact_threshold"),
        ("tool_output_max_chars", "tool_output_max_chars"),
        ("compact_strategy", "compact_strategy"),
        ("hard_limit_tokens", "hard_limit_tokens"),
        ("hard_limit_strategy", "hard_limit_strategy"),
        ("keep_last", "compact_keep_last"),
        ("compact_callback", "compact_callback"),
        ("mask_callback", "mask_callback"),
        ("compress_callback", "compress_callback"),
    ];
    out.extend(named.iter().map(|(from, to)| (*to, entry(auto, from))));
}

/// The result of a worker that ran a stage.
pub(crate) fn result(task: &str, output: &StageOutput, execution: &Json) -> Json {
    json!({
        "status": "completed", "mode": "stage", "task": task, "result": output.result,
        "artifacts": output.artifacts, "transcript": output.transcript, "execution": execution,
    })
}

/// Where a node says what its worker was asked for.
pub(crate) fn metadata(node: &Value) -> Json {
    from_metadata(&entry(node, "metadata"))
}

fn from_metadata(metadata: &Value) -> Json {
    match to_json(metadata) {
        map @ Json::Object(_) => map,
        _ => Json::Object(Map::new()),
    }
}

/// The same for a graph.
pub(crate) fn graph_metadata(graph: &Value) -> Json {
    from_metadata(&entry(graph, "metadata"))
}

/// A value of the program as a dict without keys that are nil.
pub(crate) fn dict_of(pairs: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let given = pairs.into_iter().filter(|(_, value)| !value.is_nil());
    let dict: Dict = given.collect();
    dict.into()
}

/// Script values of artifacts as JSON.
///
/// # Errors
/// They are no list, or one of them is none.
pub(crate) fn artifacts(value: &Value) -> std::result::Result<Vec<Json>, String> {
    match to_json(value) {
        Json::Null => Ok(Vec::new()),
        Json::Array(list) => {
            let wrong = list.iter().find_map(|one| artifact(one, "", &String::new).err());
            wrong.map_or(Ok(list), |text| Err(format!("artifacts: {text}")))
        }
        _ => Err(format!("artifacts must be a list, got {}", value.type_name())),
    }
}
