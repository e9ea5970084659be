//! Compaction: when a summary replaces older messages of a loop, and how the summary is produced.

use harn_llm::options::shape::Shape;
use harn_llm::transcript::Strategy;
use harn_value::{Data as Json, data::Map};
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;

/// Default number of tokens at which compaction starts.
pub(crate) const DEFAULT_THRESHOLD: i64 = 48_000;

/// What produces the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// A model.
    Llm,
    /// No model: messages are truncated.
    Truncate,
    /// No model: long results are masked.
    ObservationMask,
    /// The option `compact_callback`.
    Custom,
}

impl Engine {
    /// Returns the name in options and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Engine::Llm => "llm",
            Engine::Truncate => "truncate",
            Engine::ObservationMask => "observation_mask",
            Engine::Custom => "custom",
        }
    }

    /// Parses a name returned by [`Engine::as_str`].
    pub fn of(word: &str) -> Option<Engine> {
        [Engine::Llm, Engine::Truncate, Engine::ObservationMask, Engine::Custom]
            .into_iter()
            .find(|engine| engine.as_str() == word)
    }

    /// Returns the layout of the summary. The output of a callback has the same layout as that of a model.
    pub fn layout(self) -> Strategy {
        match self {
            Engine::Llm | Engine::Custom => Strategy::Llm,
            Engine::Truncate => Strategy::Truncate,
            Engine::ObservationMask => Strategy::ObservationMask,
        }
    }
}

/// The compaction settings of a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// The value of the option, for events.
    pub strategy: String,
    /// What produces the summary; `None` if compaction is disabled.
    pub engine: Option<Engine>,
    /// Number of messages that are preserved at the beginning.
    pub keep_first: usize,
    /// Number of messages that are preserved at the end.
    pub keep_last: usize,
    /// Estimated tokens at which compaction starts.
    pub threshold: i64,
    /// Estimated tokens above which a second pass runs.
    pub hard_limit: Option<i64>,
    /// What produces the summary in the second pass.
    pub hard_engine: Engine,
    /// Template of the prompt for a model's summary.
    pub summarize_prompt: Option<String>,
}

/// The values of the option that selects the engine.
pub(crate) const WRITERS: Shape = Shape::Word(&["llm", "truncate", "custom", "observation_mask"]);

const FIELDS: Shape = Shape::Dict(&[
    ("strategy", Shape::Str),
    ("type", Shape::Str),
    ("kind", Shape::Str),
    ("keep_first_n", Shape::Int(0)),
    ("keep_last_n", Shape::Int(0)),
]);

impl Compaction {
    /// Reads the options of a loop.
    ///
    /// # Errors
    /// An option has the wrong type, or the strategy is unknown.
    pub fn from_options(options: &Map<String, Json>) -> Result<Compaction, ConfigError> {
        let int = |map: &Map<String, Json>, key: &str| map.get(key).and_then(Json::as_i64);
        let text = |key: &str| options.get(key).filter(|v| !v.is_null()).map(Json::printed);
        let none = Map::new();
        let (word, fields) = match options.get("compaction") {
            None | Some(Json::Null | Json::Bool(true)) => (None, &none),
            Some(Json::Bool(false)) => (Some("none".to_owned()), &none),
            Some(Json::String(word)) => (Some(word.clone()), &none),
            Some(value @ Json::Object(map)) => {
                FIELDS.check("compaction", value).map_err(|e| ConfigError(format!("agent_loop: {e}")))?;
                let word = ["strategy", "type", "kind"].iter().find_map(|key| map.get(*key)?.as_str());
                (word.map(str::to_owned), map)
            }
            Some(_) => {
                return Err(ConfigError(
                    "agent_loop: compaction must be a string, dict, bool, or nil".to_owned(),
                ));
            }
        };
        let older = match options.get("auto_compact") {
            Some(Json::Bool(false)) => Some("none".to_owned()),
            _ => text("compact_strategy"),
        };
        let own_writer = || options.get("compact_callback").is_some_and(|c| c.as_opaque().is_some());
        let strategy = word
            .or(older)
            .unwrap_or_else(|| if own_writer() { "custom".to_owned() } else { "hybrid".to_owned() });
        let size = |first: Option<i64>, second: Option<i64>, default: usize| {
            first.or(second).and_then(|n| usize::try_from(n).ok()).unwrap_or(default)
        };
        let keep_first = size(int(fields, "keep_first_n"), int(options, "compact_keep_first"), 0);
        let keep_last = size(int(fields, "keep_last_n"), int(options, "compact_keep_last"), 10);
        let (engine, keep_first, keep_last) = match strategy.as_str() {
            "none" => (None, keep_first, keep_last),
            "summarize_all" => (Some(Engine::Llm), 0, 0),
            "hybrid" | "summarize_middle" | "summarize" => (Some(Engine::Llm), keep_first, keep_last),
            other => match Engine::of(other) {
                Some(engine) => (Some(engine), keep_first, keep_last),
                None => {
                    return Err(ConfigError(format!(
                        // prose-ok: diagnostic
                        "agent_loop: unknown compaction strategy '{other}' (expected none, truncate, summarize_middle, summarize_all, or hybrid)"
                    )));
                }
            },
        };
        if engine == Some(Engine::Custom) && !own_writer() {
            return Err(ConfigError(
                "agent_loop: compaction strategy 'custom' needs `compact_callback`".to_owned(),
            ));
        }
        Ok(Compaction {
            strategy,
            engine,
            keep_first,
            keep_last,
            threshold: int(options, "compact_threshold").unwrap_or(DEFAULT_THRESHOLD),
            hard_limit: int(options, "hard_limit_tokens"),
            hard_engine: text("hard_limit_strategy").and_then(|w| Engine::of(&w)).unwrap_or(Engine::Truncate),
            summarize_prompt: text("summarize_prompt"),
        })
    }

    /// Lowers the threshold so that a request fits the model's context window, if its size is known.
    pub fn fit(&mut self, window: Option<u64>) {
        if let Some(window) = window.and_then(|window| i64::try_from(window).ok()) {
            // Reserves a fifth for the reply and for estimation errors.
            self.threshold = self.threshold.min(window.saturating_mul(4) / 5);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn read(options: Json) -> Result<Compaction, String> {
        Compaction::from_options(options.as_object().unwrap()).map_err(|e| e.0)
    }

    #[test]
    fn words_dicts_and_the_older_form() {
        let engine = |o: Json| {
            let c = read(o).unwrap();
            (c.strategy, c.engine, c.keep_first, c.keep_last)
        };
        assert_eq!(engine(json!({})), ("hybrid".into(), Some(Engine::Llm), 0, 10));
        assert_eq!(engine(json!({"compaction": false})).1, None);
        assert_eq!(engine(json!({"auto_compact": false})).1, None);
        assert_eq!(
            engine(json!({"compaction": {"type": "truncate", "keep_last_n": 2, "keep_first_n": 1}})),
            ("truncate".into(), Some(Engine::Truncate), 1, 2)
        );
        assert_eq!(
            engine(
                json!({"auto_compact": true, "compact_strategy": "observation_mask", "compact_keep_last": 3})
            ),
            ("observation_mask".into(), Some(Engine::ObservationMask), 0, 3)
        );
    }

    #[test]
    fn wrong_ones_are_named() {
        assert!(read(json!({"compaction": "custom"})).unwrap_err().contains("needs `compact_callback`"));
        assert!(read(json!({"compaction": "zip"})).unwrap_err().contains("strategy 'zip'"));
    }

    #[test]
    fn the_window_lowers_the_threshold() {
        let mut compaction = read(json!({})).unwrap();
        compaction.fit(Some(8192));
        assert_eq!(compaction.threshold, 6553);
        compaction.fit(Some(1_000_000));
        assert_eq!(compaction.threshold, 6553);
    }
}
