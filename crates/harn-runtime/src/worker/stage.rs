//! A delegated stage: a loop or a single call with a task and artifacts.

use harn_agent::artifact::artifact;
use harn_agent::workflow::{Node, of_single_stage};
use harn_llm::Conversation;
use harn_stdlib::timestamp_now;
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Value};
use harn_vm::{Cx, Result};

use crate::convert::{entry, text, thrown, to_json};
use crate::kept::Kept;
use crate::llm_embedder::{new_id, prompts_of};
use crate::session::Sessions;

/// Fields of a node that are only supported in a workflow.
const OF_WORKFLOWS: [&str; 7] = [
    "verify",
    "map_policy",
    "join_policy",
    "reduce_policy",
    "escalation_policy",
    "retry_policy",
    "context_policy",
];

/// The output of a stage.
pub(crate) struct StageOutput {
    /// The result of its loop or call.
    pub(crate) result: Json,
    /// Its conversation.
    pub(crate) transcript: Json,
    /// The artifacts that it produced.
    pub(crate) artifacts: Vec<Json>,
}

/// Checks a node before it is run.
///
/// # Errors
/// The node is not a dict, or requires a workflow.
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

/// Checks that the metadata of a node or graph is data, because it is stored in records.
///
/// # Errors
/// The metadata is not data.
pub(crate) fn check_data(what: &str, holder: &Value) -> std::result::Result<(), String> {
    harn_stdlib::check_data(what, &entry(holder, "metadata")).map_err(|error| error.caught().to_string())
}

/// Checks the initial conversation of work.
///
/// # Errors
/// The value is not a conversation.
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

/// Runs a stage, as a workflow does.
///
/// # Errors
/// The artifacts violate its contract, or its loop or call throws.
pub(crate) async fn run(
    cx: &Cx,
    node: &Value,
    task: &str,
    artifacts: &[Json],
    transcript: &Json,
) -> Result<StageOutput> {
    let name = text(&entry(node, "id")).unwrap_or_else(|| "stage".to_owned());
    let mut kept = Kept::default();
    let read = Node::normalise(&name, &kept.take(node)).map_err(thrown)?;
    let output = read.part("output_contract")["output_kinds"].clone();
    let needs_transcript = read.part("input_contract")["require_transcript"] == true;
    let (mut work, selected) = of_single_stage(read, task, artifacts, &prompts_of(cx)).map_err(thrown)?;
    let named = work.options["session_id"].as_str().map(str::to_owned);
    if needs_transcript && transcript.is_null() && named.is_none() {
        return Err(thrown(format!(
            "workflow stage {name} requires an existing session (it was given none)"
        )));
    }
    // Without a named session, the conversation uses one that ends with the stage.
    let session_id = named.clone().unwrap_or_else(|| format!("agent_session_{}", new_id(cx.vm())));
    let session = cx.state::<Sessions>().named(&session_id);
    if !transcript.is_null() && session.history.borrow().messages.is_empty() {
        let messages = transcript["messages"].as_array().into_iter().flatten();
        let mut history = session.history.borrow_mut();
        history.messages = Conversation::from_json(messages).map_err(|e| thrown(e.0))?;
        history.summary = transcript["summary"].as_str().map(str::to_owned);
    }
    work.options["session_id"] = session_id.as_str().into();
    let (result, said) = crate::workflow::ask_model(cx, &work, &kept.give(&work.options), true).await?;
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
    if named.is_none() {
        cx.state::<Sessions>().close(&session_id);
    }
    let mut shown = artifact;
    if let Some(data) = shown["data"].as_object_mut() {
        data.shift_remove("transcript");
    }
    Ok(StageOutput { result, transcript, artifacts: vec![shown] })
}

/// Returns the result of a worker that ran a stage.
pub(crate) fn result(task: &str, output: &StageOutput, execution: &Json) -> Json {
    json!({
        "status": "completed", "mode": "stage", "task": task, "result": output.result,
        "artifacts": output.artifacts, "transcript": output.transcript, "execution": execution,
    })
}

/// Returns the worker's request in the metadata of a node.
pub(crate) fn metadata(node: &Value) -> Json {
    from_metadata(&entry(node, "metadata"))
}

fn from_metadata(metadata: &Value) -> Json {
    match to_json(metadata) {
        map @ Json::Object(_) => map,
        _ => Json::Object(Map::new()),
    }
}

/// Returns the worker's request in the metadata of a graph.
pub(crate) fn graph_metadata(graph: &Value) -> Json {
    from_metadata(&entry(graph, "metadata"))
}

/// Creates a dict without entries that are nil.
pub(crate) fn dict_of(pairs: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let given = pairs.into_iter().filter(|(_, value)| !value.is_nil());
    let dict: Dict = given.collect();
    dict.into()
}

/// Converts artifacts to JSON.
///
/// # Errors
/// The value is not a list of artifacts.
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
