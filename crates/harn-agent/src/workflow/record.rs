//! The record of a run, in a form for files, tools and later runs.

use std::collections::BTreeMap;

use harn_value::{Data as Json, data::Map, json};
use serde::{Deserialize, Serialize};

use super::fixture::complete;
use super::graph::Graph;
use super::options::RunOptions;
use super::outcome::{add_usage, no_usage};
use super::world::World;

/// The append-only lists of a record.
const LISTS: [&str; 6] =
    ["stages", "transitions", "checkpoints", "completed_nodes", "child_runs", "artifacts"];

/// A position in a record: the lengths of `LISTS`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark([usize; 6]);

/// Applies changes from [`super::Execution::changes`] to a record. Changes that the record already contains have no
/// effect. Returns false if changes in between are missing, or the changes belong to another run.
pub fn apply(record: &mut Json, changes: &Json) -> bool {
    let had = |key: &str| changes["had"][key].as_u64().unwrap_or(u64::MAX);
    let has = record["checkpoints"].as_array().map_or(0, Vec::len) as u64;
    if record["id"] != changes["id"] || has < had("checkpoints") {
        return false;
    }
    if has > had("checkpoints") {
        return true;
    }
    let Some(fields) = changes["fields"].as_object() else { return false };
    for (key, value) in fields {
        record[key.as_str()] = value.clone();
    }
    for key in LISTS {
        let more = changes["more"][key].as_array().cloned().unwrap_or_default();
        match record.get_mut(key) {
            Some(Json::Array(list)) if list.len() as u64 == had(key) => list.extend(more),
            _ => return false,
        }
    }
    true
}

/// Returns whether the id of a workflow was generated because its graph had none: `workflow_` and a UUID.
fn is_drawn(id: &str) -> bool {
    let is_uuid = |text: &str| text.len() == 36 && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    id.strip_prefix("workflow_").is_some_and(is_uuid)
}

/// A point of a run from which it can resume. Stores only the number of completed nodes, because they are a prefix of
/// the complete list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Checkpoint {
    id: Json,
    ready_nodes: Json,
    completed: usize,
    last_stage_id: Json,
    persisted_at: Json,
    reason: Json,
}

impl Checkpoint {
    fn read(from: &Json) -> Checkpoint {
        let of = |key: &str| from[key].clone();
        Checkpoint {
            id: of("id"),
            ready_nodes: of("ready_nodes"),
            completed: match &from["completed_nodes"] {
                Json::Array(names) => names.len(),
                count => count.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or_default(),
            },
            last_stage_id: of("last_stage_id"),
            persisted_at: of("persisted_at"),
            reason: of("reason"),
        }
    }

    fn to_json(&self, completed_nodes: Json) -> Json {
        json!({
            "id": self.id, "ready_nodes": self.ready_nodes, "completed_nodes": completed_nodes,
            "last_stage_id": self.last_stage_id, "persisted_at": self.persisted_at, "reason": self.reason,
        })
    }
}

/// The record under construction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The constant fields.
    head: Map<String, Json>,
    status: String,
    finished_at: Json,
    error: Json,
    stages: Vec<Json>,
    transitions: Vec<Json>,
    checkpoints: Vec<Checkpoint>,
    pending: Vec<String>,
    completed: Vec<String>,
    /// Number of stages per completed node.
    done: BTreeMap<String, usize>,
    child_runs: Vec<Json>,
    handoffs: Vec<Json>,
    /// Handoffs that have not been reported yet.
    fresh_handoffs: Vec<Json>,
    transcript: Json,
    usage: Json,
    /// The path of the file.
    pub(super) persisted_path: Option<String>,
}

impl Record {
    pub(super) fn new(graph: &Graph, task: &str, options: &RunOptions, world: &World<'_>) -> Record {
        let id = format!("run_{}", (world.ids)());
        let of = |key: &str| options.lineage.get(key).cloned().unwrap_or_default();
        let root = Some(of("root_run_id")).filter(|root| !root.is_null());
        let parent = Some(of("parent_run_id")).filter(|parent| !parent.is_null());
        let head = json!({
            "_type": "run_record", "id": id, "workflow_id": graph.id, "workflow_name": graph.name, "task": task,
            "started_at": (world.now)(), "parent_run_id": of("parent_run_id"),
            "root_run_id": root.or(parent).unwrap_or_else(|| id.as_str().into()),
            "policy": graph.capability_policy, "execution": options.execution, "metadata": options.run_metadata(),
        });
        Record {
            head: head.as_object().cloned().unwrap_or_default(),
            status: "running".to_owned(),
            transcript: options.transcript.clone(),
            usage: no_usage(),
            ..Record::default()
        }
    }

    /// Resumes from a record and returns the pending nodes; `None` if the run restarts because it had ended and the
    /// task is different.
    pub(super) fn resume(&mut self, run: &Json, task: &str) -> Result<Option<Vec<String>>, String> {
        if run["_type"] != "run_record" {
            return Err("resume: not a run record".to_owned());
        }
        if let (Some(own), Some(other)) = (self.head["workflow_id"].as_str(), run["workflow_id"].as_str())
            && own != other
        {
            // Generated ids differ between processes, so the name identifies the workflow.
            let is_same =
                is_drawn(own) && is_drawn(other) && self.head["workflow_name"] == run["workflow_name"];
            if !is_same {
                return Err(format!("resume: the record is of workflow {other}, not of {own}"));
            }
            self.head.insert("workflow_id".to_owned(), other.into());
        }
        let list = |key: &str| run[key].as_array().cloned().unwrap_or_default();
        let names = |key: &str| -> Vec<String> {
            list(key).iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let pending = names("pending_nodes");
        let over = pending.is_empty() && run["status"] != "running";
        self.usage = add_usage(&Json::Null, &run["usage"]);
        self.handoffs = list("handoffs");
        self.child_runs = list("child_runs");
        if over && run["task"] != task {
            self.head.insert("parent_run_id".to_owned(), run["id"].clone());
            self.head.insert("root_run_id".to_owned(), run["root_run_id"].clone());
            self.usage = no_usage();
            return Ok(None);
        }
        for key in ["id", "started_at", "root_run_id", "parent_run_id"] {
            self.head.insert(key.to_owned(), run[key].clone());
        }
        self.stages = list("stages");
        self.transitions = list("transitions");
        self.checkpoints = list("checkpoints").iter().map(Checkpoint::read).collect();
        self.completed = names("completed_nodes");
        self.done = self.completed.iter().map(|node| (node.clone(), 0)).collect();
        for stage in &self.stages {
            *self.done.entry(stage["node_id"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
        if self.transcript.is_null() {
            self.transcript = run["transcript"].clone();
        }
        Ok(Some(pending))
    }

    /// Returns the id of the next stage of a node.
    pub(super) fn next_stage_id(&self, node: &str) -> String {
        let count = self.done.get(node).copied().unwrap_or_default();
        format!("{}:{node}:{}", self.id(), count + 1)
    }

    pub(super) fn id(&self) -> &str {
        self.head.get("id").and_then(Json::as_str).unwrap_or_default()
    }

    pub(super) fn has_completed(&self, node: &str) -> bool {
        self.done.contains_key(node)
    }

    pub(super) fn take_handoffs(&mut self) -> Vec<Json> {
        std::mem::take(&mut self.fresh_handoffs)
    }

    /// Adds a stage. Its conversation replaces that of the run if the run has one.
    pub(super) fn add_stage(&mut self, stage: Json, has_transcript: bool) {
        let node = stage["node_id"].as_str().unwrap_or_default();
        if !self.has_completed(node) {
            self.completed.push(node.to_owned());
        }
        *self.done.entry(node.to_owned()).or_default() += 1;
        if has_transcript && !stage["transcript"].is_null() {
            self.transcript = stage["transcript"].clone();
        }
        self.usage = add_usage(&self.usage, &stage["usage"]);
        let mut found = Vec::new();
        for made in stage["artifacts"].as_array().into_iter().flatten() {
            find_handoffs(&made["data"], 0, &mut found);
        }
        for handoff in found {
            self.fresh_handoffs.push(handoff.clone());
            merge_handoff(&mut self.handoffs, handoff);
        }
        let worker = &stage["metadata"]["worker"];
        if worker.is_object() {
            self.child_runs.push(json!({
                "worker_id": worker["id"], "worker_name": worker["name"], "parent_stage_id": stage["id"],
                "session_id": worker["provenance"]["session_id"], "task": worker["task"], "status": worker["status"],
                "started_at": worker["started_at"], "finished_at": worker["finished_at"],
                "run_id": worker["child_run_id"], "run_path": worker["child_run_path"],
                "snapshot_path": worker["snapshot_path"], "execution": worker["execution"],
            }));
        }
        self.stages.push(stage);
    }

    #[expect(clippy::too_many_arguments, reason = "a transition has that many parts")]
    pub(super) fn add_transition(
        &mut self,
        stage: &str,
        from: &str,
        to: &str,
        branch: &str,
        now: &str,
        consumed: &[Json],
        produced: &[Json],
        world: &World<'_>,
    ) {
        self.transitions.push(json!({
            "id": format!("transition_{}", (world.ids)()), "from_stage_id": stage, "from_node_id": from,
            "to_node_id": to, "branch": branch, "timestamp": now, "consumed_artifact_ids": consumed,
            "produced_artifact_ids": produced,
        }));
    }

    pub(super) fn checkpoint(&mut self, queue: &[String], reason: &str, now: &str, world: &World<'_>) {
        self.pending = queue.to_vec();
        let last = self.stages.last().map(|stage| stage["id"].clone()).unwrap_or_default();
        self.checkpoints.push(Checkpoint {
            id: format!("checkpoint_{}", (world.ids)()).into(),
            ready_nodes: json!(queue),
            completed: self.completed.len(),
            last_stage_id: last,
            persisted_at: now.into(),
            reason: reason.into(),
        });
    }

    /// Ends the run.
    pub(super) fn close(&mut self, status: &str, queue: &[String], world: &World<'_>) {
        let now = (world.now)();
        status.clone_into(&mut self.status);
        self.finished_at = now.as_str().into();
        self.checkpoint(queue, "finalize", &now, world);
    }

    /// Ends the run with an exception.
    pub(super) fn fail(&mut self, error: &str, queue: &[String], world: &World<'_>) {
        self.error = error.into();
        self.close("failed", queue, world);
    }

    /// Returns the current position; `artifacts` is the number of artifacts of the run.
    pub(super) fn mark(&self, artifacts: usize) -> Mark {
        let (stages, transitions) = (self.stages.len(), self.transitions.len());
        let (checkpoints, completed) = (self.checkpoints.len(), self.completed.len());
        Mark([stages, transitions, checkpoints, completed, self.child_runs.len(), artifacts])
    }

    /// Returns the changes since `mark`.
    pub(super) fn changes(&self, mark: Mark, artifacts: &[Json]) -> Json {
        let Mark([stages, transitions, checkpoints, completed, children, made]) = mark;
        let had: Map<String, Json> =
            LISTS.iter().zip(mark.0).map(|(key, length)| ((*key).to_owned(), length.into())).collect();
        let new = self.checkpoints[checkpoints..].iter().map(|one| one.to_json(json!(one.completed)));
        json!({
            "id": self.id(), "had": had,
            "fields": {
                "status": self.status, "pending_nodes": self.pending, "usage": self.usage, "handoffs": self.handoffs,
                "transcript": self.transcript,
            },
            "more": {
                "stages": self.stages[stages..], "transitions": self.transitions[transitions..],
                "checkpoints": new.collect::<Vec<_>>(), "completed_nodes": self.completed[completed..],
                "child_runs": self.child_runs[children..], "artifacts": artifacts[made..],
            },
        })
    }

    /// Returns the record as a dict; with `packed`, in the form for files, see [`unpack`](super::unpack).
    pub(super) fn to_json(&self, artifacts: &[Json], packed: bool) -> Json {
        let mut out = self.head.clone();
        let completed = |one: &Checkpoint| match packed {
            true => json!(one.completed),
            false => json!(self.completed[..one.completed.min(self.completed.len())]),
        };
        let checkpoints: Vec<Json> = self.checkpoints.iter().map(|one| one.to_json(completed(one))).collect();
        let parts = json!({
            "status": self.status, "finished_at": self.finished_at, "stages": self.stages,
            "transitions": self.transitions, "checkpoints": checkpoints, "pending_nodes": self.pending,
            "completed_nodes": self.completed, "child_runs": self.child_runs, "artifacts": artifacts,
            "handoffs": self.handoffs, "transcript": self.transcript, "usage": self.usage,
            "persisted_path": self.persisted_path,
        });
        if let Json::Object(parts) = parts {
            out.extend(parts);
        }
        if !self.error.is_null() {
            out.insert("error".to_owned(), self.error.clone());
        }
        // The derived fields are computed only when all stages are complete.
        if self.status == "running" { Json::Object(out) } else { complete(Json::Object(out)) }
    }
}

/// Finds handoffs anywhere in the result of a stage.
pub(crate) fn find_handoffs(value: &Json, depth: usize, out: &mut Vec<Json>) {
    if depth > 6 {
        return;
    }
    match value {
        Json::Object(map) if map.get("_type").is_some_and(|word| word == "handoff_artifact") => {
            out.push(value.clone());
        }
        Json::Object(map) => map.values().for_each(|item| find_handoffs(item, depth + 1, out)),
        Json::Array(items) => items.iter().for_each(|item| find_handoffs(item, depth + 1, out)),
        _ => {}
    }
}

/// Adds a handoff; replaces one with the same id.
pub(crate) fn merge_handoff(list: &mut Vec<Json>, handoff: Json) {
    match list.iter_mut().find(|known| known["id"] == handoff["id"]) {
        Some(known) => *known = handoff,
        None => list.push(handoff),
    }
}
