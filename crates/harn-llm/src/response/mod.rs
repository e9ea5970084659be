//! A finished reply, and the result dict that programs see. `builder.rs` builds it from events.

mod builder;

use harn_value::{Data as Value, json};

use crate::estimate::estimate_tokens;
use crate::event::Usage;
use crate::json::{Object, str_at};
use crate::message::ToolCall;
use crate::secret::RedactData;
use crate::tool_text::{TaggedReply, has_opening_tag, parse_reply};

pub use builder::ResponseBuilder;

/// A part of a reply, in canonical form.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Visible text.
    OutputText(String),
    /// Private reasoning, with the provider's signature if there is one.
    Reasoning(String, Option<String>),
    /// The provider's summary of its reasoning.
    ReasoningSummary(String),
    /// A tool call.
    ToolCall(ToolCall),
    /// A search of deferred tools by the provider.
    SearchQuery {
        /// Id of the search.
        id: String,
        /// Name of the search tool.
        name: String,
        /// The query.
        query: Value,
    },
    /// The result of a search.
    SearchResult {
        /// Id of the search.
        tool_use_id: String,
        /// Tools found.
        tool_names: Vec<String>,
    },
    /// Opaque provider data.
    ProviderData(About, Value),
    /// A block of a mock, unchanged.
    Raw(Value),
}

/// The part of a turn to which provider data belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// A separate part of the turn, at its own position.
    Turn,
    /// The visible text.
    Text,
    /// The call with this id.
    Call(String),
}

impl Block {
    /// Parses a block of a mock. Searches become the same blocks as those run by a provider; other blocks are
    /// unchanged.
    pub fn from_json(value: &Value) -> Block {
        let text = |key: &str| str_at(value, key).unwrap_or_default().to_string();
        match str_at(value, "type") {
            Some("tool_search_query") => Block::SearchQuery {
                id: text("id"),
                name: text("name"),
                query: search_query(value.get("query").cloned().unwrap_or(Value::Null)),
            },
            Some("tool_search_result") => {
                let references = crate::json::list_at(value, "tool_references").iter();
                let names = references.filter_map(|r| str_at(r, "tool_name").map(str::to_string));
                Block::SearchResult { tool_use_id: text("tool_use_id"), tool_names: names.collect() }
            }
            Some("provider_data") => {
                let about = match str_at(value, "about") {
                    Some("text") => About::Text,
                    Some("call") => About::Call(text("id")),
                    _ => About::Turn,
                };
                Block::ProviderData(about, value.get("data").cloned().unwrap_or_default())
            }
            _ => Block::Raw(value.clone()),
        }
    }

    /// Returns the canonical dict, including its visibility.
    pub fn to_json(&self) -> Value {
        match self {
            Block::OutputText(text) => json!({"type": "output_text", "text": text, "visibility": "public"}),
            Block::Reasoning(text, signature) => {
                let mut out = json!({"type": "reasoning", "text": text, "visibility": "private"});
                if let Some(signature) = signature {
                    out["signature"] = signature.as_str().into();
                }
                out
            }
            Block::ReasoningSummary(text) => {
                json!({"type": "reasoning_summary", "text": text, "visibility": "private"})
            }
            Block::ToolCall(call) => json!({"type": "tool_call", "id": call.id, "name": call.name,
                "arguments": call.arguments, "visibility": "internal"}),
            Block::SearchQuery { id, name, query } => {
                json!({"type": "tool_search_query", "id": id, "name": name, "query": query, "visibility": "internal"})
            }
            Block::SearchResult { tool_use_id, tool_names } => {
                let references: Vec<Value> = tool_names.iter().map(|n| json!({"tool_name": n})).collect();
                json!({"type": "tool_search_result", "tool_use_id": tool_use_id, "tool_references": references,
                       "visibility": "internal"})
            }
            Block::ProviderData(about, data) => {
                let mut out = json!({"type": "provider_data", "data": data, "visibility": "private"});
                match about {
                    About::Turn => {}
                    About::Text => out["about"] = "text".into(),
                    About::Call(id) => (out["about"], out["id"]) = ("call".into(), id.as_str().into()),
                }
                out
            }
            Block::Raw(value) => value.clone(),
        }
    }
}

/// Normalizes a search query to a dict: providers send a dict, the JSON of one, or a plain string.
pub(crate) fn search_query(query: Value) -> Value {
    match query {
        Value::Object(_) => query,
        Value::Null => json!({}),
        Value::String(text) => match serde_json::from_str::<Value>(&text) {
            Ok(dict @ Value::Object(_)) => dict,
            _ => json!({"query": text}),
        },
        other => json!({"query": other}),
    }
}

/// A finished reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// Raw visible text, never the reasoning; see `text_or_reasoning`.
    pub text: String,
    /// Canonical blocks.
    pub blocks: Vec<Block>,
    /// Native tool calls; after `read_tags` also calls parsed from text.
    pub tool_calls: Vec<ToolCall>,
    /// Private reasoning.
    pub thinking: Option<String>,
    /// Summary of the reasoning.
    pub thinking_summary: Option<String>,
    /// Why generation ended.
    pub stop_reason: Option<String>,
    /// Token usage.
    pub usage: Usage,
    /// The model that replied.
    pub model: String,
    /// The provider that replied.
    pub provider: String,
    /// Fraction of the prompt that was read from the cache.
    pub cache_hit_ratio: f64,
    /// Savings through the cache, in USD.
    pub cache_savings_usd: f64,
    /// Whether the reply comes from a mock.
    pub mocked: bool,
    /// Parsed JSON of a structured call.
    pub data: Option<Value>,
    /// The answer, if the model gave it through the answer tool.
    pub answer: Option<Value>,
    /// Whether the JSON had to be repaired.
    pub repaired: bool,
    /// Results of parsing the tagged protocol.
    pub tagged: Tagged,
}

/// The tools that a reply may call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Offered {
    /// Their names.
    pub(crate) names: Vec<String>,
    /// Whether the model is instructed to write its calls as text.
    pub(crate) as_text: bool,
}

/// The results of parsing the tagged protocol of a reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tagged {
    /// User-facing prose, if the reply contained any in tags.
    pub prose: Option<String>,
    /// User-facing text, as `visible_text` returns it.
    pub visible: String,
    /// Violations of the protocol.
    pub violations: Vec<String>,
    /// Calls that could not be parsed.
    pub errors: Vec<String>,
    /// Body of the done block.
    pub done_marker: Option<String>,
    /// The reply in canonical tags.
    pub canonical: Option<String>,
}

impl Response {
    /// Creates an empty reply of a route.
    pub fn new(provider: &str, model: &str) -> Response {
        Response {
            text: String::new(),
            blocks: Vec::new(),
            tool_calls: Vec::new(),
            thinking: None,
            thinking_summary: None,
            stop_reason: None,
            usage: Usage::default(),
            model: model.to_string(),
            provider: provider.to_string(),
            cache_hit_ratio: 0.0,
            cache_savings_usd: 0.0,
            mocked: false,
            data: None,
            answer: None,
            repaired: false,
            tagged: Tagged::default(),
        }
    }

    /// Appends a reply that continues this one.
    pub(crate) fn extend(&mut self, next: Response) {
        let add = |own: &mut Option<String>, more: Option<String>| match (own.as_mut(), more) {
            (Some(own), Some(more)) => own.push_str(&more),
            (None, more) => *own = more,
            (Some(_), None) => {}
        };
        self.text.push_str(&next.text);
        self.blocks.extend(next.blocks);
        self.tool_calls.extend(next.tool_calls);
        add(&mut self.thinking, next.thinking);
        add(&mut self.thinking_summary, next.thinking_summary);
        self.stop_reason = next.stop_reason;
        self.usage = self.usage.plus(next.usage);
    }

    /// Redacts secrets that the reply echoes, so that programs, logs and recordings contain no keys.
    pub fn redact(&mut self, secrets: &[crate::secret::Secret]) {
        for secret in secrets {
            let hide = |text: &mut String| *text = secret.redact(text);
            hide(&mut self.text);
            self.thinking.iter_mut().for_each(hide);
            self.thinking_summary.iter_mut().for_each(hide);
            self.tool_calls.iter_mut().for_each(|call| secret.redact_value(&mut call.arguments));
            for block in &mut self.blocks {
                match block {
                    Block::OutputText(text) | Block::Reasoning(text, _) | Block::ReasoningSummary(text) => {
                        hide(text)
                    }
                    Block::ToolCall(call) => secret.redact_value(&mut call.arguments),
                    Block::SearchQuery { query, .. } => secret.redact_value(query),
                    Block::SearchResult { .. } => {}
                    Block::ProviderData(_, value) | Block::Raw(value) => secret.redact_value(value),
                }
            }
        }
    }

    /// Parses text tool calls and tagged prose. This also applies to models that were offered native tools, because
    /// they sometimes write calls in tags.
    pub(crate) fn read_tags(&mut self, tools: &Offered) {
        let native = !self.tool_calls.is_empty();
        let applies = tools.as_text || (!native && has_opening_tag(&self.text));
        let without_thoughts = self.text.contains("<think>").then(|| crate::wire::think::split(&self.text).0);
        let as_it_stands = TaggedReply::default().visible(&self.text);
        self.tagged = Tagged { visible: as_it_stands, prose: without_thoughts.clone(), ..Tagged::default() };
        if !applies {
            return;
        }
        let reply = parse_reply(&self.text, &tools.names);
        let calls = reply.calls();
        self.tagged.prose = Some(reply.prose()).filter(|p| !p.is_empty()).or(without_thoughts);
        self.tagged.done_marker = reply.done_marker().map(str::to_string);
        self.tagged.canonical = reply.canonical_text();
        if tools.as_text && !native {
            self.tagged.visible = reply.visible(&self.text);
        }
        if tools.as_text {
            self.tagged.violations = reply.violations;
        }
        // A call that cannot be parsed is not visible text, so it must be reported or it would be lost.
        if !tools.names.is_empty() {
            self.tagged.errors = reply.errors;
        }
        if !native && !calls.is_empty() {
            self.blocks.extend(calls.iter().cloned().map(Block::ToolCall));
            self.tool_calls = calls;
        }
    }

    /// Returns whether the reply calls tools, or tries to; then it is not an answer.
    pub(crate) fn calls_tools(&self) -> bool {
        !self.tool_calls.is_empty() || !self.tagged.errors.is_empty()
    }

    /// Returns the visible text of the blocks.
    pub(crate) fn output_text(&self) -> String {
        let text = |block: &Block| match block {
            Block::OutputText(text) => Some(text.clone()),
            _ => None,
        };
        self.blocks.iter().filter_map(text).collect()
    }

    /// Returns the visible text, or the reasoning of a reply without any text or tool calls, because some servers put
    /// the whole answer there.
    pub(crate) fn text_or_reasoning(&self) -> &str {
        match &self.thinking {
            Some(thinking) if self.text.is_empty() && self.tool_calls.is_empty() => thinking,
            _ => &self.text,
        }
    }

    /// Returns the user-facing prose, else the raw text.
    pub fn prose(&self) -> &str {
        self.tagged.prose.as_deref().unwrap_or(&self.text)
    }

    /// Returns the `usage` dict of results.
    pub fn usage_json(&self) -> Value {
        let (read, write) = (self.usage.cache_read.unwrap_or(0), self.usage.cache_write.unwrap_or(0));
        json!({
            "input_tokens": self.usage.input.unwrap_or(0), "output_tokens": self.usage.output.unwrap_or(0),
            "cache_read_tokens": read, "cache_write_tokens": write, "cache_creation_input_tokens": write,
            "reasoning_tokens": self.usage.reasoning.unwrap_or(0), "estimated": self.usage.estimated,
            "cache_hit_ratio": self.cache_hit_ratio, "cache_savings_usd": self.cache_savings_usd,
        })
    }

    /// Estimates the tokens that the model generated.
    pub(crate) fn estimated_tokens(&self) -> i64 {
        let calls = self.tool_calls.iter().map(|c| crate::estimate::estimate_json(&c.arguments)).sum::<i64>();
        let thoughts = self.thinking.as_deref().map_or(0, estimate_tokens);
        estimate_tokens(&self.text).saturating_add(thoughts).saturating_add(calls)
    }

    /// Returns the calls as result dicts; those of a mock have a `type`.
    pub(crate) fn tool_calls_json(&self) -> Vec<Value> {
        let dict = |call: &ToolCall| {
            let mut out = call.to_json();
            if self.mocked {
                out["type"] = "tool_call".into();
            }
            out
        };
        self.tool_calls.iter().map(dict).collect()
    }

    /// Returns the result dict, without `transcript`.
    pub fn to_json(&self) -> Value {
        let mut out = Object::new();
        let usage = self.usage_json();
        out.insert("text".into(), self.text_or_reasoning().into());
        out.insert("visible_text".into(), self.tagged.visible.as_str().into());
        out.insert("prose".into(), self.prose().into());
        out.insert("model".into(), self.model.as_str().into());
        out.insert("provider".into(), self.provider.as_str().into());
        if let Value::Object(counts) = &usage {
            out.extend(counts.clone());
        }
        out.insert("usage".into(), usage);
        let shown = |block: &&Block| !matches!(block, Block::ProviderData(..));
        out.insert("blocks".into(), self.blocks.iter().filter(shown).map(Block::to_json).collect());
        let text = |value: &Option<String>| value.as_ref().map(|v| Value::from(v.as_str()));
        let list = |items: &[String]| (!items.is_empty()).then(|| Value::from(items.to_vec()));
        let calls = self.tool_calls_json();
        let optional = [
            ("data", self.data.clone()),
            ("repaired", self.repaired.then_some(Value::Bool(true))),
            ("tool_calls", (!calls.is_empty()).then(|| calls.into())),
            ("thinking", text(&self.thinking)),
            ("private_reasoning", text(&self.thinking)),
            ("thinking_summary", text(&self.thinking_summary)),
            ("stop_reason", text(&self.stop_reason)),
            ("protocol_violations", list(&self.tagged.violations)),
            ("tool_parse_errors", list(&self.tagged.errors)),
            ("done_marker", text(&self.tagged.done_marker)),
            ("canonical_text", text(&self.tagged.canonical)),
        ];
        for (key, value) in optional {
            if let Some(value) = value {
                out.insert(key.into(), value);
            }
        }
        Value::Object(out)
    }
}
