//! The options of a run, parsed once.

use harn_llm::options::shape::Shape;
use harn_value::{Data as Json, data::Map, json};
use serde::{Deserialize, Serialize};

use crate::ceiling::check_approval;

/// Model settings of a run that override those of its nodes.
pub const MODEL_KEYS: [&str; 21] = [
    "provider",
    "model",
    "model_tier",
    "temperature",
    "max_tokens",
    "tool_format",
    "max_iterations",
    "max_nudges",
    "nudge",
    "tool_examples",
    "turn_policy",
    "stop_after_successful_tools",
    "require_successful_tools",
    "native_tool_fallback",
    "session_id",
    "permissions",
    "command_policy",
    "skills",
    "skill_match",
    "post_turn_callback",
    "task_ledger",
];

/// The model settings that single calls do not have.
pub(crate) const LOOP_KEYS: [&str; 15] = [
    "tool_format",
    "max_iterations",
    "max_nudges",
    "nudge",
    "tool_examples",
    "turn_policy",
    "stop_after_successful_tools",
    "require_successful_tools",
    "native_tool_fallback",
    "permissions",
    "command_policy",
    "skills",
    "skill_match",
    "post_turn_callback",
    "task_ledger",
];

/// The model settings that limit: they apply in addition to those of the nodes instead of replacing them.
pub const LIMIT_KEYS: [&str; 2] = ["permissions", "command_policy"];

const KEYS: [&str; 17] = [
    "max_steps",
    "persist_path",
    "resume_path",
    "resume_run",
    "replay_run",
    "replay_path",
    "replay_mode",
    "transcript",
    "approval_policy",
    "audit",
    "parent_worker_id",
    "parent_stage_id",
    "parent_run_id",
    "root_run_id",
    "execution",
    "metadata",
    "trigger_event",
];

/// The options of a workflow run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunOptions {
    /// Maximum number of nodes taken from the queue; by default, four per node.
    pub max_steps: Option<u64>,
    /// The file for the record.
    pub persist_path: Option<String>,
    /// The file of a record to resume from.
    pub resume_path: Option<String>,
    /// A record to resume from.
    pub resume_run: Json,
    /// The file of a record to replay.
    pub replay_path: Option<String>,
    /// A record to replay.
    pub replay_run: Json,
    /// Whether stages are replayed from a record.
    pub replays: bool,
    /// The conversation that stages continue.
    pub transcript: Json,
    /// Which calls need human approval, in addition to the policies of graph and nodes.
    pub approval_policy: Json,
    /// Audit metadata of mutations.
    pub audit: Json,
    /// The parents of the run.
    pub lineage: Map<String, Json>,
    /// The execution environment of the run.
    pub execution: Json,
    /// Metadata of the program.
    pub metadata: Map<String, Json>,
    /// The event that started the run.
    pub trigger_event: Json,
    /// Model settings that override those of the nodes.
    pub model: Map<String, Json>,
}

/// Validates a record to resume from or replay.
fn check_record(key: &str, run: &Json) -> Result<(), String> {
    const ENTRIES: Shape = Shape::List(&Shape::Map(&Shape::Any));
    const NAMES: Shape = Shape::List(&Shape::Text);
    if run.is_null() {
        return Ok(());
    }
    if run["_type"] != "run_record" {
        return Err(format!("option {key} is not a run record"));
    }
    let lists = ["stages", "transitions", "checkpoints", "artifacts", "child_runs", "handoffs"];
    let names = ["pending_nodes", "completed_nodes"].map(|name| (name, NAMES));
    for (name, shape) in lists.map(|name| (name, ENTRIES)).into_iter().chain(names) {
        shape.check(&format!("option {key}: {name}"), &run[name]).map_err(|error| error.to_string())?;
    }
    Ok(())
}

impl RunOptions {
    /// Returns the names of all options.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KEYS.into_iter().chain(MODEL_KEYS)
    }

    /// Reads the options.
    ///
    /// # Errors
    /// An option is unknown, or has an invalid value.
    pub fn read(given: &Json) -> Result<RunOptions, String> {
        let map = match given {
            Json::Null => return Ok(RunOptions::default()),
            Json::Object(map) => map,
            other => {
                return Err(format!("options must be a dict, got {}", other.type_name()));
            }
        };
        let known = || KEYS.iter().chain(&MODEL_KEYS);
        if let Some(key) = map.keys().find(|key| !known().any(|k| k == key)) {
            let all: Vec<&str> = known().copied().collect();
            return Err(format!("unknown option '{key}'; there are {}", all.join(", ")));
        }
        let text = |key: &str| match &given[key] {
            Json::Null => Ok(None),
            Json::String(text) if !text.is_empty() => Ok(Some(text.clone())),
            _ => Err(format!("option {key} must be a string that is not empty")),
        };
        let dict = |key: &str| match &given[key] {
            value @ (Json::Null | Json::Object(_)) => Ok(value.clone()),
            other => Err(format!("option {key} must be a dict, got {}", other.type_name())),
        };
        let max_steps = match &given["max_steps"] {
            Json::Null => None,
            steps => Some(steps.as_u64().ok_or("option max_steps must be an int of at least 0")?),
        };
        check_approval("option approval_policy", &given["approval_policy"])?;
        let event = &given["trigger_event"];
        for key in ["id", "provider", "kind", "trace_id"] {
            let at = format!("option trigger_event.{key}");
            Shape::Text.check(&at, &event[key]).map_err(|error| error.to_string())?;
        }
        for key in ["resume_run", "replay_run"] {
            check_record(key, &given[key])?;
        }
        let replays = match &given["replay_mode"] {
            Json::Null => false,
            word if word == "deterministic" => true,
            other => {
                let word = other.printed();
                return Err(format!("option replay_mode must be \"deterministic\", got '{word}'"));
            }
        };
        let out = RunOptions {
            max_steps,
            persist_path: text("persist_path")?,
            resume_path: text("resume_path")?,
            resume_run: dict("resume_run")?,
            replay_path: text("replay_path")?,
            replay_run: dict("replay_run")?,
            replays,
            transcript: dict("transcript")?,
            approval_policy: dict("approval_policy")?,
            audit: dict("audit")?,
            lineage: ["parent_worker_id", "parent_stage_id", "parent_run_id", "root_run_id"]
                .into_iter()
                .map(|key| Ok((key.to_owned(), text(key)?.into())))
                .collect::<Result<_, String>>()?,
            execution: dict("execution")?,
            metadata: dict("metadata")?.as_object().cloned().unwrap_or_default(),
            trigger_event: dict("trigger_event")?,
            model: map
                .iter()
                .filter(|(key, value)| MODEL_KEYS.contains(&key.as_str()) && !value.is_null())
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        };
        if replays && out.replay_path.is_none() && out.replay_run.is_null() {
            return Err("replay_mode requires replay_run or replay_path".to_owned());
        }
        if !replays && (out.replay_path.is_some() || !out.replay_run.is_null()) {
            return Err("replay_run and replay_path require replay_mode: \"deterministic\"".to_owned());
        }
        Ok(out)
    }

    /// Returns the metadata for the record of a run.
    pub(crate) fn run_metadata(&self) -> Map<String, Json> {
        let mut out = self.metadata.clone();
        if !self.audit.is_null() {
            out.insert("audit".to_owned(), self.audit.clone());
        }
        if !self.trigger_event.is_null() {
            out.insert("trigger_event".to_owned(), self.trigger_event.clone());
            out.insert("trace_id".to_owned(), self.trigger_event["trace_id"].clone());
        }
        if self.replays {
            out.insert("replay_mode".to_owned(), "deterministic".into());
            out.insert("replayed_from".to_owned(), self.replay_run["id"].clone());
        }
        for key in ["parent_worker_id", "parent_stage_id"] {
            if let Some(id) = self.lineage.get(key).filter(|id| !id.is_null()) {
                out.insert(key.to_owned(), json!(id));
            }
        }
        out
    }
}
