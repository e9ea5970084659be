//! The options of a run, parsed once.

use harn_llm::options::{CallOptions, Shape};
use harn_schema::options::{DataOptions, OptionField, Options};
use harn_value::{Data as Json, data::Map, json};
use serde::{Deserialize, Serialize};

use crate::ceiling::check_approval;
use crate::loop_options::LoopOptions;

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

/// The options of a run of a workflow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Options)]
#[options(data)]
pub struct RunOptions {
    /// How many nodes may be taken from the queue. The default is four for each node.
    #[option(ty = "int", with = steps)]
    pub max_steps: Option<u64>,
    /// File to which the record of the run is written.
    #[option(ty = "string", with = |value| text("persist_path", value))]
    pub persist_path: Option<String>,
    /// File of a record; the run continues from it.
    #[option(ty = "string", with = |value| text("resume_path", value))]
    pub resume_path: Option<String>,
    /// A record; the run continues from it.
    #[option(ty = "dict", with = |value| record("resume_run", value))]
    pub resume_run: Json,
    /// A record whose stages are replayed. Requires `replay_mode`.
    #[option(ty = "dict", with = |value| record("replay_run", value))]
    pub replay_run: Json,
    /// File of a record whose stages are replayed. Requires `replay_mode`.
    #[option(ty = "string", with = |value| text("replay_path", value))]
    pub replay_path: Option<String>,
    /// `"deterministic"`: stages are taken from a record.
    #[option(name = "replay_mode", ty = "string", with = replay_mode)]
    pub replays: bool,
    /// The conversation that stages continue.
    #[option(ty = "dict", with = |value| dict("transcript", value))]
    pub transcript: Json,
    /// Which calls need an approval, in addition to those that graph and nodes name.
    #[option(ty = "dict", with = approval)]
    pub approval_policy: Json,
    /// What reviewers of changes are shown.
    #[option(ty = "dict", with = |value| dict("audit", value))]
    pub audit: Json,
    /// Who started the run.
    #[option(group = Lineage, with = Lineage::map)]
    pub lineage: Map<String, Json>,
    /// Where the run takes place.
    #[option(ty = "dict", with = |value| dict("execution", value))]
    pub execution: Json,
    /// Data of the program, stored with the run.
    #[option(ty = "dict", with = metadata)]
    pub metadata: Map<String, Json>,
    /// The event that started the run: `{id, provider, kind, trace_id}`.
    #[option(ty = "dict", with = event)]
    pub trigger_event: Json,
    /// Settings of models that take precedence over those of the nodes.
    #[option(skip)]
    pub model: Map<String, Json>,
}

/// The runs and stages that started a run.
#[derive(Options)]
#[options(data)]
struct Lineage {
    /// The worker that started the run.
    #[option(ty = "string", with = |value| text("parent_worker_id", value))]
    parent_worker_id: Option<String>,
    /// The stage that started the run.
    #[option(ty = "string", with = |value| text("parent_stage_id", value))]
    parent_stage_id: Option<String>,
    /// The run that started the run.
    #[option(ty = "string", with = |value| text("parent_run_id", value))]
    parent_run_id: Option<String>,
    /// The first run of the chain.
    #[option(ty = "string", with = |value| text("root_run_id", value))]
    root_run_id: Option<String>,
}

impl Lineage {
    fn map(self) -> Result<Map<String, Json>, String> {
        let ids = [
            ("parent_worker_id", self.parent_worker_id),
            ("parent_stage_id", self.parent_stage_id),
            ("parent_run_id", self.parent_run_id),
            ("root_run_id", self.root_run_id),
        ];
        Ok(ids.into_iter().map(|(key, id)| (key.to_owned(), id.into())).collect())
    }
}

fn steps(value: &Json) -> Result<Option<u64>, &'static str> {
    value.as_u64().map(Some).ok_or("option max_steps must be an int of at least 0")
}

fn text(key: &str, value: &Json) -> Result<Option<String>, String> {
    match value {
        Json::String(text) if !text.is_empty() => Ok(Some(text.clone())),
        _ => Err(format!("option {key} must be a string that is not empty")),
    }
}

fn dict(key: &str, value: &Json) -> Result<Json, String> {
    match value.is_object() {
        true => Ok(value.clone()),
        false => Err(format!("option {key} must be a dict, got {}", value.type_name())),
    }
}

fn metadata(value: &Json) -> Result<Map<String, Json>, String> {
    dict("metadata", value).map(|dict| dict.as_object().cloned().unwrap_or_default())
}

fn approval(value: &Json) -> Result<Json, String> {
    check_approval("option approval_policy", value)?;
    dict("approval_policy", value)
}

fn event(value: &Json) -> Result<Json, String> {
    for key in ["id", "provider", "kind", "trace_id"] {
        let at = format!("option trigger_event.{key}");
        Shape::Text.check(&at, &value[key]).map_err(|error| error.to_string())?;
    }
    dict("trigger_event", value)
}

fn replay_mode(value: &Json) -> Result<bool, String> {
    match value.as_str() {
        Some("deterministic") => Ok(true),
        _ => Err(format!("option replay_mode must be \"deterministic\", got '{}'", value.printed())),
    }
}

/// Reads a record that a run is to go on from, or to be played from.
fn record(key: &str, run: &Json) -> Result<Json, String> {
    const ENTRIES: Shape = Shape::List(&Shape::Map(&Shape::Any));
    const NAMES: Shape = Shape::List(&Shape::Text);
    if run["_type"] != "run_record" {
        return Err(format!("option {key} is not a run record"));
    }
    let lists = ["stages", "transitions", "checkpoints", "artifacts", "child_runs", "handoffs"];
    let names = ["pending_nodes", "completed_nodes"].map(|name| (name, NAMES));
    for (name, shape) in lists.map(|name| (name, ENTRIES)).into_iter().chain(names) {
        shape.check(&format!("option {key}: {name}"), &run[name]).map_err(|error| error.to_string())?;
    }
    dict(key, run)
}

impl RunOptions {
    /// All options: those of the run, and settings of models.
    pub fn fields() -> impl Iterator<Item = &'static OptionField> {
        let of_models = |field: &&OptionField| MODEL_KEYS.contains(&field.name);
        let models = LoopOptions::FIELDS.iter().chain(CallOptions::FIELDS).filter(of_models);
        RunOptions::FIELDS.iter().chain(models)
    }

    /// Reads the options.
    ///
    /// # Errors
    /// An option is unknown, or has an invalid value.
    pub fn of(given: &Json) -> Result<RunOptions, String> {
        let map = match given {
            Json::Null => return Ok(RunOptions::default()),
            Json::Object(map) => map,
            other => {
                return Err(format!("options must be a dict, got {}", other.type_name()));
            }
        };
        let known = || RunOptions::FIELDS.iter().map(|field| field.name).chain(MODEL_KEYS);
        if let Some(key) = map.keys().find(|key| !known().any(|k| k == *key)) {
            let all: Vec<&str> = known().collect();
            return Err(format!("unknown option '{key}'; there are {}", all.join(", ")));
        }
        let mut out = RunOptions::read(map)?;
        let of_models =
            |(key, value): &(&String, &Json)| MODEL_KEYS.contains(&key.as_str()) && !value.is_null();
        out.model = map.iter().filter(of_models).map(|(key, value)| (key.clone(), value.clone())).collect();
        let replays = out.replays;
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
