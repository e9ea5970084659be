//! Streaming events of a reply: every wire format is decoded into these events, and both streamed and complete results
//! are built from them.

use harn_value::Data as Value;

/// One event of a reply. Events are in the order in which they arrived.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// Discards all earlier events: the attempt has failed and another one starts.
    Restart,
    /// The request was sent: from here on the provider may bill the call.
    Sent,
    /// The reply arrived as a whole: the events that follow are its parts, and the provider generates no more.
    Whole,
    /// Visible text.
    Text(String),
    /// Private reasoning text.
    Reasoning(String),
    /// A signature that the provider requires to accept the preceding reasoning in a later request.
    Signature(String),
    /// A summary of the reasoning, written by the provider.
    ReasoningSummary(String),
    /// A tool call starts, or its id or name becomes known. `index` orders the calls.
    ToolCallStart {
        /// Position among the calls of the reply.
        index: usize,
        /// The provider's id of the call.
        id: Option<String>,
        /// The tool's name.
        name: Option<String>,
    },
    /// A fragment of a call's JSON arguments.
    ToolCallDelta {
        /// Position among the calls of the reply.
        index: usize,
        /// Part of the JSON source.
        arguments: String,
    },
    /// Opaque provider data of the turn, returned to the provider unchanged.
    TurnData(Value),
    /// Opaque provider data of the visible text.
    TextData(Value),
    /// Opaque provider data of a call.
    CallData {
        /// Position among the calls of the reply.
        index: usize,
        /// The provider's data.
        data: Value,
    },
    /// The provider searches its deferred tools.
    SearchQuery {
        /// The provider's id of the search.
        id: String,
        /// The search tool's name.
        name: String,
        /// The query as the model wrote it.
        query: Value,
    },
    /// Tools that the provider's search found.
    SearchResult {
        /// Id of the search that this answers.
        tool_use_id: String,
        /// Names of the tools found.
        tool_names: Vec<String>,
    },
    /// Token counts known so far.
    Usage(Usage),
    /// The model that replies, as the provider names it.
    Model(String),
    /// Why generation ended.
    Stop(StopReason),
}

/// The stop reason of a reply in which the model declines to answer.
pub(crate) const REFUSAL: &str = "refusal";
/// The stop reason of a reply without content.
pub(crate) const EMPTY: &str = "empty";
/// The stop reason of a reply that contains a call the provider could not parse.
pub(crate) const MALFORMED_CALL: &str = "malformed_call";
/// The stop reason of a turn that the provider asks the client to continue.
pub(crate) const PAUSE_TURN: &str = "pause_turn";

/// Why generation ended, normalized across providers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The model finished.
    EndTurn,
    /// The token limit was reached.
    MaxTokens,
    /// The model called tools.
    ToolUse,
    /// A stop sequence was generated.
    StopSequence,
    /// Any other reason: one of the constants above, or the provider's own name in lower case.
    Other(String),
}

impl StopReason {
    /// Maps a provider's name to the normalized stop reason.
    pub(crate) fn from_provider(word: &str) -> Self {
        let other = |word: &str| StopReason::Other(word.to_owned());
        match word {
            "end_turn" | "stop" | "STOP" | "completed" => StopReason::EndTurn,
            "max_tokens" | "length" | "MAX_TOKENS" | "max_output_tokens" => StopReason::MaxTokens,
            "tool_use" | "tool_calls" | "function_call" | "FUNCTION_CALL" => StopReason::ToolUse,
            "stop_sequence" => StopReason::StopSequence,
            "content_filter"
            | "content_filtered"
            | "guardrail_intervened"
            | "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "IMAGE_SAFETY"
            | "IMAGE_RECITATION"
            | "IMAGE_PROHIBITED_CONTENT"
            | "JAILBREAK"
            | "MODEL_ARMOR" => other("content_filter"),
            "model_context_window_exceeded" | "context_length_exceeded" => other("context_overflow"),
            "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS"
            | "MALFORMED_RESPONSE"
            | "malformed_model_output"
            | "malformed_tool_use" => other(MALFORMED_CALL),
            // Ollama's reply to a request that only loads or unloads the model.
            "load" | "unload" => other(EMPTY),
            word => StopReason::Other(word.to_ascii_lowercase()),
        }
    }

    /// Returns the name used in result dicts.
    pub fn as_str(&self) -> &str {
        match self {
            StopReason::EndTurn => "end_turn",
            StopReason::MaxTokens => "max_tokens",
            StopReason::ToolUse => "tool_use",
            StopReason::StopSequence => "stop_sequence",
            StopReason::Other(word) => word,
        }
    }
}

/// Token counts of a call. `None` means that the provider did not report the number; that is different from zero.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Prompt tokens, including cached ones.
    pub input: Option<i64>,
    /// Reply tokens, including reasoning.
    pub output: Option<i64>,
    /// Prompt tokens read from the provider's cache: a part of `input`.
    pub cache_read: Option<i64>,
    /// Prompt tokens written to the provider's cache: a part of `input`.
    pub cache_write: Option<i64>,
    /// Prompt tokens written to the cache with a lifetime of one hour: a part of `cache_write`.
    pub cache_write_hour: Option<i64>,
    /// Reasoning tokens: a part of `output`.
    pub reasoning: Option<i64>,
    /// The cost of the call in USD, if the provider reports it.
    pub cost: Option<f64>,
    /// Whether `input` or `output` is an estimate.
    pub estimated: bool,
}

impl Usage {
    /// Overwrites counts with those that `later` knows. Implausible counts (negative, or beyond a trillion) are treated
    /// as unknown: budgets and costs must not shrink or overflow because of a faulty server.
    pub fn merge(&mut self, later: Usage) {
        let sane = |count: Option<i64>| count.filter(|n| (0..=1_000_000_000_000).contains(n));
        self.input = sane(later.input).or(self.input);
        self.output = sane(later.output).or(self.output);
        self.cache_read = sane(later.cache_read).or(self.cache_read);
        self.cache_write = sane(later.cache_write).or(self.cache_write);
        self.cache_write_hour = sane(later.cache_write_hour).or(self.cache_write_hour);
        self.reasoning = sane(later.reasoning).or(self.reasoning);
        self.cost = later.cost.filter(|usd| (0.0..=1e9).contains(usd)).or(self.cost);
        self.estimated |= later.estimated;
    }

    /// Returns the sum of the counts of two requests.
    #[must_use]
    pub(crate) fn plus(self, next: Usage) -> Usage {
        let sum = |a: Option<i64>, b: Option<i64>| a.map_or(b, |a| Some(a.saturating_add(b.unwrap_or(0))));
        Usage {
            input: sum(self.input, next.input),
            output: sum(self.output, next.output),
            cache_read: sum(self.cache_read, next.cache_read),
            cache_write: sum(self.cache_write, next.cache_write),
            cache_write_hour: sum(self.cache_write_hour, next.cache_write_hour),
            reasoning: sum(self.reasoning, next.reasoning),
            cost: self.cost.zip(next.cost).map(|(a, b)| a + b),
            estimated: self.estimated || next.estimated,
        }
    }

    /// Returns the prompt tokens read from or written to the cache.
    fn cached(&self) -> i64 {
        self.cache_read.unwrap_or(0).saturating_add(self.cache_write.unwrap_or(0))
    }

    /// Adds the cached tokens to an `input` that does not include them.
    #[must_use]
    pub(crate) fn with_cached_input(mut self) -> Usage {
        self.input = self.input.map(|n| n.saturating_add(self.cached()));
        self
    }

    /// Like [`Usage::with_cached_input`], for sources that may or may not include cached tokens in `input`: when the
    /// cached tokens exceed `input`, they cannot be part of it.
    #[must_use]
    pub(crate) fn with_input_of_all(self) -> Usage {
        if self.input.is_some_and(|n| self.cached() > n) { self.with_cached_input() } else { self }
    }

    /// Estimates the counts that the server omitted or reported as zero.
    #[must_use]
    pub(crate) fn or_estimated(mut self, input: i64, output: i64) -> Usage {
        for (count, estimate) in [(&mut self.input, input), (&mut self.output, output)] {
            if count.is_none_or(|n| n == 0 && estimate > 0) {
                *count = Some(estimate);
                self.estimated = true;
            }
        }
        self
    }

    /// Returns whether no count is known.
    pub fn is_empty(&self) -> bool {
        *self == Usage::default()
    }

    /// Returns the known token counts as a dict, for errors that report the usage before the failure.
    pub fn to_json(self) -> Value {
        let mut out = crate::json::Object::new();
        let counts = [
            ("input_tokens", self.input),
            ("output_tokens", self.output),
            ("cache_read_tokens", self.cache_read),
            ("cache_write_tokens", self.cache_write),
            ("reasoning_tokens", self.reasoning),
        ];
        for (key, count) in counts {
            if let Some(n) = count {
                out.insert(key.to_string(), n.into());
            }
        }
        if self.estimated {
            out.insert("estimated".to_owned(), true.into());
        }
        Value::Object(out)
    }
}
