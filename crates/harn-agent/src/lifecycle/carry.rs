//! The state that delegated work carries into its next run.

use harn_llm::options::shape::Shape;
use harn_value::{Data as Json, data::Map};
use serde::{Deserialize, Serialize};

/// How the next run uses the conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TranscriptMode {
    /// Continues it.
    #[default]
    Inherit,
    /// Continues a copy with a new id.
    Fork,
    /// Starts a new one.
    Reset,
    /// Continues it with its older messages replaced by a summary.
    Compact,
}

/// The option `carry`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Carry {
    /// How the next run uses the conversation.
    #[serde(rename = "transcript_mode")]
    pub transcript: TranscriptMode,
    /// Whether artifacts are carried over.
    pub keeps_artifacts: bool,
    /// How artifacts are selected and conversations compacted.
    pub context_policy: Json,
    /// Whether a workflow resumes from its run record.
    pub resume_workflow: bool,
    /// Whether snapshots are written.
    pub persist_state: bool,
    /// Whether the work waits for triggers after it has ended.
    pub retriggerable: bool,
}

impl Default for Carry {
    fn default() -> Carry {
        Carry {
            transcript: TranscriptMode::Inherit,
            keeps_artifacts: true,
            context_policy: Json::Null,
            resume_workflow: true,
            persist_state: true,
            retriggerable: false,
        }
    }
}

const KEYS: [&str; 8] = [
    "artifact_mode",
    "transcript_mode",
    "context_policy",
    "resume_workflow",
    "persist_state",
    "retriggerable",
    "policy",
    "tools",
];

/// The keys of `context_policy` that control the compaction of a conversation.
const COMPACTION: &[(&str, Shape)] = &[
    ("strategy", STRATEGY),
    ("compact_strategy", STRATEGY),
    ("keep_last", Shape::Int(0)),
    ("target_tokens", Shape::Int(0)),
];

const STRATEGY: Shape = Shape::Word(&["observation_mask", "llm", "truncate"]);

impl Carry {
    /// Returns the policy that selects the artifacts to carry over.
    pub fn artifact_policy(&self) -> Json {
        of_artifacts(&self.context_policy)
    }

    /// Reads the option. The driver applies its keys `policy` and `tools`, which restrict the work.
    ///
    /// # Errors
    /// A key or mode is unknown, or a value has the wrong type.
    pub fn from_option(value: &Json) -> Result<Carry, String> {
        let mut out = Carry::default();
        let map = match value {
            Json::Null => return Ok(out),
            Json::Object(map) => map,
            _ => return Err("carry must be a dict".to_owned()),
        };
        if let Some(key) = map.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(format!("carry has no key '{key}'; there are {}", KEYS.join(", ")));
        }
        let word = |key: &str| match map.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(word)) => Ok(Some(word.as_str())),
            Some(_) => Err(format!("carry.{key} must be a string")),
        };
        out.transcript = match word("transcript_mode")? {
            None | Some("inherit") => TranscriptMode::Inherit,
            Some("fork") => TranscriptMode::Fork,
            Some("reset") => TranscriptMode::Reset,
            Some("compact") => TranscriptMode::Compact,
            Some(other) => {
                return Err(format!(
                    "unknown carry.transcript_mode '{other}' (expected inherit, fork, reset, or compact)"
                ));
            }
        };
        out.keeps_artifacts = match word("artifact_mode")? {
            None | Some("inherit") => true,
            Some("none") => false,
            Some(other) => {
                return Err(format!("unknown carry.artifact_mode '{other}' (expected inherit or none)"));
            }
        };
        out.context_policy = match map.get("context_policy") {
            None | Some(Json::Null) => Json::Null,
            Some(policy @ Json::Object(map)) => {
                for (key, shape) in COMPACTION {
                    let value = map.get(*key).unwrap_or(&Json::Null);
                    shape.check(&format!("carry.context_policy.{key}"), value).map_err(|e| e.to_string())?;
                }
                crate::artifact::check_policy(&of_artifacts(policy))
                    .map_err(|error| format!("carry.context_{error}"))?;
                policy.clone()
            }
            Some(_) => return Err("carry.context_policy must be a dict".to_owned()),
        };
        out.resume_workflow = flag(map, "resume_workflow", true)?;
        out.persist_state = flag(map, "persist_state", true)?;
        out.retriggerable = flag(map, "retriggerable", false)?;
        Ok(out)
    }
}

/// Returns the part of a `context_policy` that selects artifacts.
fn of_artifacts(policy: &Json) -> Json {
    let given = policy.as_object().into_iter().flatten();
    let kept = given.filter(|(key, _)| !COMPACTION.iter().any(|(name, _)| name == key));
    Json::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}

fn flag(map: &Map<String, Json>, key: &str, default: bool) -> Result<bool, String> {
    match map.get(key) {
        None | Some(Json::Null) => Ok(default),
        Some(Json::Bool(flag)) => Ok(*flag),
        Some(_) => Err(format!("carry.{key} must be a bool")),
    }
}
