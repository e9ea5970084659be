//! Observability data of a run: its action graph, turns, verifications and compactions, derived from its stages.

use std::collections::HashMap;

use harn_value::{Data as Json, data::Map, json};

/// Returns the `observability` of a run record.
pub fn observe(run: &Json) -> Json {
    let stages = list(run, "stages");
    let (nodes, edges) = action_graph(run);
    let verifications: Vec<Json> = stages
        .iter()
        .filter(|stage| stage["verification"]["kind"] == "composite")
        .map(|stage| {
            json!({
                "stage_id": stage["id"], "node_id": stage["node_id"], "passed": stage["verification"]["ok"],
                "outcome": stage["outcome"], "checks": stage["verification"]["checks"],
            })
        })
        .collect();
    let pointers: Vec<Json> = stages
        .iter()
        .filter(|stage| stage["transcript"].is_object())
        .map(|stage| {
            let transcript = &stage["transcript"];
            json!({
                "stage_id": stage["id"], "node_id": stage["node_id"], "transcript_id": transcript["id"],
                "message_count": list(transcript, "messages").len(), "event_count": list(transcript, "events").len(),
            })
        })
        .collect();
    let workers: Vec<Json> = list(run, "child_runs").to_vec();
    let facts = list(run, "artifacts").iter().filter(|one| one["kind"] == "research_fact").count();
    json!({
        "schema_version": 4, "planner_rounds": rounds(stages), "research_fact_count": facts,
        "action_graph_nodes": nodes, "action_graph_edges": edges, "worker_lineage": workers,
        "verification_outcomes": verifications, "transcript_pointers": pointers,
        "compaction_events": compactions(stages), "daemon_events": events_of(stages, "daemon"),
    })
}

fn list<'a>(value: &'a Json, key: &str) -> &'a [Json] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns a summary of each stage that ran an agent loop.
fn rounds(stages: &[Json]) -> Vec<Json> {
    let of = |stage: &Json| {
        let result = &stage["metadata"]["result"];
        result["iterations"].as_i64().map(|iterations| {
            json!({
                "stage_id": stage["id"], "node_id": stage["node_id"], "status": result["status"],
                "iteration_count": iterations, "llm_call_count": result["trace"]["llm_calls"],
                "tools_used": result["trace"]["tools_used"], "rejected_tools": result["rejected_tools"],
                "successful_tools": result["tools"]["successful"], "task_ledger": result["task_ledger"],
            })
        })
    };
    stages.iter().filter_map(of).collect()
}

fn compactions(stages: &[Json]) -> Vec<Json> {
    let mut out = Vec::new();
    for stage in stages {
        let transcript = &stage["transcript"];
        for event in list(transcript, "events").iter().filter(|event| event["kind"] == "compaction") {
            let metadata = &event["metadata"];
            let asset = &metadata["snapshot_asset_id"];
            let known = list(transcript, "assets").iter().find(|one| !asset.is_null() && one["id"] == *asset);
            let path = known.map(|asset| asset["path"].clone()).unwrap_or_default();
            out.push(json!({
                "id": event["id"], "transcript_id": transcript["id"], "stage_id": stage["id"],
                "node_id": stage["node_id"], "mode": metadata["mode"], "strategy": metadata["strategy"],
                "archived_messages": metadata["archived_messages"],
                "estimated_tokens_before": metadata["estimated_tokens_before"],
                "estimated_tokens_after": metadata["estimated_tokens_after"], "snapshot_asset_id": asset,
                "snapshot_location": if known.is_some() { "transcript".into() } else { Json::Null },
                "snapshot_path": path, "available": known.is_some(),
            }));
        }
    }
    out
}

fn events_of(stages: &[Json], kind: &str) -> Vec<Json> {
    let mut out = Vec::new();
    for stage in stages {
        for event in list(&stage["transcript"], "events") {
            if event["kind"].as_str().is_some_and(|word| word.starts_with(kind)) {
                out.push(
                    json!({"stage_id": stage["id"], "kind": event["kind"], "metadata": event["metadata"]}),
                );
            }
        }
    }
    out
}

/// Returns the arguments and results of tool calls.
pub(crate) fn tool_recordings(run: &Json) -> Json {
    let mut out = Vec::new();
    for stage in list(run, "stages") {
        let events = list(&stage["transcript"], "events");
        for event in events.iter().filter(|event| event["kind"] == "tool_execution") {
            let metadata = &event["metadata"];
            let intent = events.iter().find(|one| {
                one["kind"] == "tool_intent" && one["metadata"]["tool_use_id"] == metadata["tool_use_id"]
            });
            out.push(json!({
                "tool_name": metadata["tool_name"], "tool_use_id": metadata["tool_use_id"],
                "arguments": intent.map(|one| one["metadata"]["arguments"].clone()).unwrap_or_default(),
                "result": event["text"], "is_rejected": metadata["rejected"], "stage_id": stage["id"],
            }));
        }
    }
    out.into()
}

fn node(fields: Json) -> Json {
    let mut out = Map::new();
    let keys = [
        "id",
        "label",
        "kind",
        "status",
        "outcome",
        "trace_id",
        "stage_id",
        "node_id",
        "worker_id",
        "run_id",
        "run_path",
        "metadata",
    ];
    for key in keys {
        out.insert(key.to_owned(), fields[key].clone());
    }
    Json::Object(out)
}

fn edge(from: &str, to: &str, kind: &str, label: Json) -> Json {
    json!({"from_id": from, "to_id": to, "kind": kind, "label": label})
}

/// Returns the nodes and edges of the action graph.
fn action_graph(run: &Json) -> (Vec<Json>, Vec<Json>) {
    let id = |value: &Json| value.printed();
    let event = &run["metadata"]["trigger_event"];
    let trace = &event["trace_id"];
    let run_id = format!("run:{}", id(&run["id"]));
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    nodes.push(node(json!({
        "id": run_id, "label": run["workflow_name"], "kind": "run", "status": run["status"], "trace_id": trace,
        "run_id": run["id"], "run_path": run["persisted_path"],
    })));
    let trigger = event.is_object().then(|| format!("trigger:{}", id(&event["id"])));
    if let Some(trigger) = &trigger {
        let label = format!("{}:{}", id(&event["provider"]), id(&event["kind"]));
        nodes.push(node(json!({
            "id": trigger, "label": label, "kind": "trigger", "status": "received", "trace_id": trace,
            "run_id": run["id"],
        })));
        edges.push(edge(&run_id, trigger, "entry", Json::Null));
    }
    let (stages, transitions) = (list(run, "stages"), list(run, "transitions"));
    // A transition leads to the next stage of its target node after the stage that it leaves.
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (at, stage) in stages.iter().enumerate() {
        places.entry(stage["id"].as_str().unwrap_or_default()).or_insert(at);
    }
    let mut reached = vec![false; stages.len()];
    let mut ways = Vec::new();
    for transition in transitions {
        let from = transition["from_stage_id"].as_str().and_then(|id| places.get(id));
        let Some(from) = from.copied() else { continue };
        let to = (from + 1..stages.len()).find(|at| stages[*at]["node_id"] == transition["to_node_id"]);
        let Some(to) = to else { continue };
        reached[to] = true;
        let kind = if stages[from]["kind"] == "condition" { "predicate_gate" } else { "transition" };
        ways.push(edge(
            &format!("stage:{}", id(&stages[from]["id"])),
            &format!("stage:{}", id(&stages[to]["id"])),
            kind,
            transition["branch"].clone(),
        ));
    }
    for (stage, reached) in stages.iter().zip(reached) {
        let stage_id = format!("stage:{}", id(&stage["id"]));
        let kind = if stage["kind"] == "condition" { "predicate" } else { "stage" };
        nodes.push(node(json!({
            "id": stage_id, "label": stage["node_id"], "kind": kind, "status": stage["status"],
            "outcome": stage["outcome"], "trace_id": trace, "stage_id": stage["id"], "node_id": stage["node_id"],
            "worker_id": stage["metadata"]["worker_id"], "run_id": run["id"],
        })));
        if !reached {
            match &trigger {
                Some(trigger) => edges.push(edge(trigger, &stage_id, "trigger_dispatch", Json::Null)),
                None => edges.push(edge(&run_id, &stage_id, "entry", Json::Null)),
            }
        }
    }
    edges.extend(ways);
    for child in list(run, "child_runs") {
        let worker = format!("worker:{}", id(&child["worker_id"]));
        nodes.push(node(json!({
            "id": worker, "label": child["worker_name"], "kind": "worker", "status": child["status"],
            "trace_id": trace, "worker_id": child["worker_id"], "run_id": child["run_id"],
            "run_path": child["run_path"], "stage_id": child["parent_stage_id"],
        })));
        edges.push(edge(
            &format!("stage:{}", id(&child["parent_stage_id"])),
            &worker,
            "delegates",
            Json::Null,
        ));
    }
    (nodes, edges)
}
