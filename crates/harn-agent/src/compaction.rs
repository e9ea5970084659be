//! Compaction: when a summary replaces older messages of a loop, and how the summary is produced.

use harn_llm::options::shape::Shape;
use harn_llm::transcript::Strategy;
use harn_schema::options::{FromData, Options};
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

/// The options of a loop about long histories.
#[derive(Options)]
#[options(data)]
pub struct CompactionOptions {
    /// How Harn compacts older messages: `hybrid`, `summarize_middle`, `summarize_all`, `truncate`, `observation_mask` or `custom`; `false` turns it off. The dict is `{strategy, keep_first_n, keep_last_n}`.
    #[option(ty = "string | dict | bool", shown = "\"hybrid\"", dependent)]
    compaction: Option<Json>,
    /// Used only without `compaction`: `llm` (same as `hybrid`), `truncate`, `observation_mask` or `custom`.
    #[option(shape = WRITERS, dependent)]
    compact_strategy: Option<String>,
    /// Compact older messages automatically.
    #[option(shown = "true")]
    auto_compact: Option<bool>,
    /// Compact when a request exceeds this number of tokens. The default is lower if the model's context window is smaller.
    #[option(range = 0.., default = DEFAULT_THRESHOLD, shown = "48000")]
    compact_threshold: i64,
    /// Number of messages at the beginning that are not compacted.
    #[option(default = 0)]
    compact_keep_first: usize,
    /// Number of messages at the end that are not compacted.
    #[option(default = 10)]
    compact_keep_last: usize,
    /// If a request still has more tokens after compaction, compact again with `hard_limit_strategy`.
    #[option(range = 1..)]
    hard_limit_tokens: Option<i64>,
    /// The strategy of the second compaction.
    #[option(shape = WRITERS, shown = "\"truncate\"", dependent)]
    hard_limit_strategy: Option<String>,
    /// The prompt for the summary. The default is built in.
    #[option(shape = Shape::Text)]
    summarize_prompt: Option<String>,
    /// Receives the list of older messages and returns their summary. Selects `custom` unless another strategy is set.
    #[option(ty = "function", shape = Shape::Closure, dependent)]
    compact_callback: Option<()>,
    /// With `observation_mask`: receives a message with a long tool result, and returns its replacement or nil.
    #[option(ty = "function", shape = Shape::Closure, dependent)]
    _mask_callback: (),
    /// Receives `{tool_name, output, max_chars}` for a tool result longer than `tool_output_max_chars`, and returns a shorter string.
    #[option(ty = "function", shape = Shape::Closure)]
    _compress_callback: (),
}

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
    pub(crate) fn new(given: CompactionOptions) -> Result<Compaction, ConfigError> {
        let none = Map::new();
        let (word, fields) = match &given.compaction {
            None | Some(Json::Bool(true)) => (None, &none),
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
        let older = match given.auto_compact {
            Some(false) => Some("none".to_owned()),
            _ => given.compact_strategy,
        };
        let has_writer = given.compact_callback.is_some();
        let strategy = word
            .or(older)
            .unwrap_or_else(|| if has_writer { "custom".to_owned() } else { "hybrid".to_owned() });
        let size = |key: &str| fields.get(key).and_then(usize::from_data);
        let keep_first = size("keep_first_n").unwrap_or(given.compact_keep_first);
        let keep_last = size("keep_last_n").unwrap_or(given.compact_keep_last);
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
        if engine == Some(Engine::Custom) && !has_writer {
            return Err(ConfigError(
                "agent_loop: compaction strategy 'custom' needs `compact_callback`".to_owned(),
            ));
        }
        Ok(Compaction {
            strategy,
            engine,
            keep_first,
            keep_last,
            threshold: given.compact_threshold,
            hard_limit: given.hard_limit_tokens,
            hard_engine: given.hard_limit_strategy.and_then(|w| Engine::of(&w)).unwrap_or(Engine::Truncate),
            summarize_prompt: given.summarize_prompt,
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
    use harn_schema::options::DataOptions;
    use harn_value::json;

    fn read(options: Json) -> Result<Compaction, String> {
        Compaction::new(CompactionOptions::read(options.as_object().unwrap())?).map_err(|e| e.0)
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
