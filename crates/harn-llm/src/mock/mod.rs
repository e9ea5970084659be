//! Replies without a network: queued mocks, fixtures, and a deterministic default reply.

mod fixture;
mod matching;

pub use fixture::parse_fixtures;
pub(crate) use fixture::{fixture_line, recorded_line, refused_line};
pub(crate) use matching::match_text;
pub use matching::{glob_matches, prompt_text};

use std::cell::OnceCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use harn_value::{Data as Value, json};

use crate::conversation::Conversation;
use crate::error::{Category, LlmError};
use crate::event::Usage;
use crate::json::{Object, list_at, present, str_at};
use crate::message::ToolCall;
use crate::options::{Shape, ShapeError};
use crate::response::{Block, Response};
use crate::tools::NativeTools;

/// The provider whose calls are always answered by the mock.
pub const PROVIDER: &str = "mock";

/// One scripted reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Mock {
    text: String,
    tool_calls: Vec<(Option<String>, String, Value)>,
    pattern: Option<String>,
    consume_match: bool,
    usage: Usage,
    thinking: Option<String>,
    thinking_summary: Option<String>,
    stop_reason: Option<String>,
    model: Option<String>,
    provider: Option<String>,
    blocks: Option<Vec<Value>>,
    chunks: Option<Vec<String>>,
    error: Option<MockError>,
    /// The number of the recorded call, in the order in which calls began.
    call: Option<i64>,
    /// Digests of the recorded request; see [`Asked`].
    asked: Option<Asked>,
    /// Why the recorded call was rejected before it sent a request.
    refused: Option<String>,
}

/// Digests of a request, by which replay finds its reply: one of the whole request, one of its messages alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    whole: String,
    messages: String,
}

/// Digits of a digest: enough to distinguish the calls of a run.
const DIGITS: usize = 16;

impl Asked {
    pub(crate) fn of(model: &str, messages: &Conversation, system: Option<&str>) -> Asked {
        let messages = crate::json::hash(&messages.to_json().into())[..DIGITS].to_owned();
        let whole = crate::json::hash(&json!([model, system, messages]))[..DIGITS].to_owned();
        Asked { whole, messages }
    }

    fn from_json(value: &Value) -> Option<Asked> {
        let [Value::String(whole), Value::String(messages)] = value.as_array()?.as_slice() else {
            return None;
        };
        Some(Asked { whole: whole.clone(), messages: messages.clone() })
    }

    fn to_json(&self) -> Value {
        json!([self.whole, self.messages])
    }
}

#[derive(Debug, Clone, PartialEq)]
struct MockError {
    category: Category,
    message: String,
    retry_after_ms: Option<u64>,
}

const KEYS: [&str; 21] = [
    "asked",
    "blocks",
    "cache_creation_input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "call",
    "chunks",
    "consume_match",
    "error",
    "input_tokens",
    "match",
    "model",
    "output_tokens",
    "provider",
    "reasoning_tokens",
    "refused",
    "stop_reason",
    "text",
    "thinking",
    "thinking_summary",
    "tool_calls",
];

const CALL_KEYS: [&str; 4] = ["args", "arguments", "id", "name"];

const COUNT: Shape = Shape::Int(0);

/// The shapes of fields for which a wrong type would change the reply. Other fields are converted to strings.
const FIELDS: &[(&str, Shape)] = &[
    ("match", Shape::Str),
    ("consume_match", Shape::Bool),
    ("chunks", Shape::List(&Shape::Str)),
    ("blocks", Shape::List(&Shape::Map(&Shape::Any))),
    ("tool_calls", Shape::List(&Shape::Map(&Shape::Any))),
    ("input_tokens", COUNT),
    ("output_tokens", COUNT),
    ("cache_read_tokens", COUNT),
    ("cache_write_tokens", COUNT),
    ("reasoning_tokens", COUNT),
    ("cache_creation_input_tokens", COUNT),
    ("call", Shape::Int(1)),
];

/// Arguments that are not JSON remain a string.
const ARGUMENTS: Shape = Shape::Either(&[Shape::Map(&Shape::Any), Shape::Str]);

fn check_fields(dict: &Value) -> Result<(), ShapeError> {
    harn_schema::shape::check_fields(FIELDS.iter().copied(), dict.as_object().unwrap_or(&Object::new()))?;
    for (at, call) in list_at(dict, "tool_calls").iter().enumerate() {
        let fields =
            [("name", Shape::Str), ("id", Shape::Str), ("args", ARGUMENTS), ("arguments", ARGUMENTS)];
        for (key, shape) in fields {
            let value = call.get(key).unwrap_or(&Value::Null);
            shape.check(&format!("tool_calls[{at}].{key}"), value)?;
        }
    }
    Ok(())
}

/// Rejects a key that looks like a typo of a known one, because the reply would silently differ. Tool calls may have
/// other unknown keys, as providers send more keys than are read here.
fn no_slips(place: &str, dict: &Value, known: &[&str]) -> Result<(), String> {
    let keys = dict.as_object().into_iter().flat_map(|dict| dict.keys());
    for key in keys.filter(|key| !known.contains(&key.as_str())) {
        if let Some(name) = crate::options::nearest(key, known.iter().copied()) {
            return Err(format!("llm_mock: {place}unknown key `{key}` (did you mean `{name}`?)"));
        }
    }
    Ok(())
}

/// Rejects unknown keys, because they would silently have no effect.
fn no_strangers(dict: &Value) -> Result<(), String> {
    no_slips("", dict, &KEYS)?;
    let mut keys = dict.as_object().into_iter().flat_map(|dict| dict.keys());
    match keys.find(|key| !KEYS.contains(&key.as_str())) {
        Some(key) => Err(format!("llm_mock: unknown key `{key}`; there are {}", KEYS.join(", "))),
        None => Ok(()),
    }
}

impl Mock {
    /// Parses the dict of `llm_mock`.
    ///
    /// # Errors
    /// `llm_mock: …` when the dict is invalid.
    pub fn from_json(value: &Value) -> Result<Mock, String> {
        if !value.is_object() {
            return Err("llm_mock: expected a dict argument".to_string());
        }
        no_strangers(value)?;
        list_at(value, "tool_calls")
            .iter()
            .try_for_each(|call| no_slips("tool_calls: ", call, &CALL_KEYS))?;
        check_fields(value).map_err(|wrong| format!("llm_mock: {wrong}"))?;
        let text = |key: &str| present(value, key).map(crate::json::display);
        let int = |key: &str| value.get(key).and_then(Value::as_i64);
        let chunks: Option<Vec<String>> = value
            .get("chunks")
            .and_then(Value::as_array)
            .map(|c| c.iter().map(crate::json::display).collect());
        let calls = list_at(value, "tool_calls").iter().map(|call| {
            let arguments = call.get("arguments").or_else(|| call.get("args")).filter(|a| !a.is_null());
            let name = str_at(call, "name").unwrap_or("unknown").to_string();
            (str_at(call, "id").map(str::to_string), name, arguments.cloned().unwrap_or_else(|| json!({})))
        });
        Ok(Mock {
            text: text("text").unwrap_or_else(|| chunks.as_ref().map(|c| c.concat()).unwrap_or_default()),
            tool_calls: calls.collect(),
            pattern: text("match"),
            consume_match: value.get("consume_match").is_some_and(crate::json::truthy),
            usage: Usage {
                input: int("input_tokens"),
                output: int("output_tokens"),
                cache_read: int("cache_read_tokens"),
                cache_write: int("cache_write_tokens").or_else(|| int("cache_creation_input_tokens")),
                reasoning: int("reasoning_tokens"),
                ..Usage::default()
            },
            thinking: text("thinking"),
            thinking_summary: text("thinking_summary"),
            stop_reason: text("stop_reason"),
            model: text("model"),
            provider: text("provider"),
            blocks: value.get("blocks").and_then(Value::as_array).cloned(),
            chunks,
            error: present(value, "error").map(MockError::from_json).transpose()?,
            call: int("call"),
            asked: value.get("asked").and_then(Asked::from_json),
            refused: str_at(value, "refused").map(str::to_owned),
        })
    }

    pub(crate) fn answer(&self, input_bytes: usize) -> Result<Answer, LlmError> {
        if let Some(error) = &self.error {
            return Err(error.to_error());
        }
        if let Some(text) = &self.refused {
            return Err(LlmError::new(crate::error::classify_message(text), text.as_str()));
        }
        let provider = self.provider.as_deref().unwrap_or(PROVIDER);
        let mut out = Response::new(provider, self.model.as_deref().unwrap_or(PROVIDER));
        out.mocked = true;
        out.text.clone_from(&self.text);
        out.thinking.clone_from(&self.thinking);
        out.thinking_summary.clone_from(&self.thinking_summary);
        out.stop_reason.clone_from(&self.stop_reason);
        for (n, (id, name, arguments)) in self.tool_calls.iter().enumerate() {
            let id = id.clone().unwrap_or_else(|| format!("mock_call_{}", n + 1));
            out.tool_calls.push(ToolCall { id, name: name.clone(), arguments: arguments.clone() });
        }
        out.usage = self.usage;
        out.usage.input.get_or_insert(to_i64(input_bytes));
        out.usage.output.get_or_insert(30);
        out.usage = out.usage.with_input_of_all();
        match &self.blocks {
            Some(blocks) => out.blocks = blocks.iter().map(Block::from_json).collect(),
            None => add_blocks(&mut out, &self.text),
        }
        let chunks = self.chunks.clone().unwrap_or_else(|| cut_after_blanks(&self.text));
        let explicit_cache = self.usage.cache_read.is_some() || self.usage.cache_write.is_some();
        Ok(Answer { response: out, chunks, cut: self.chunks.is_none(), explicit_cache })
    }
}

impl MockError {
    fn from_json(value: &Value) -> Result<MockError, String> {
        if !value.is_object() {
            return Err("llm_mock: error must be a dict {category, message, retry_after_ms?}".to_string());
        }
        let word = match present(value, "category") {
            Some(word) => crate::json::display(word),
            None => return Err("llm_mock: error.category is required".to_string()),
        };
        let category =
            Category::from_word(&word).ok_or_else(|| format!("llm_mock: unknown error category `{word}`"))?;
        let retry_after_ms = match present(value, "retry_after_ms") {
            None => None,
            Some(ms) => Some(
                ms.as_u64()
                    .ok_or_else(|| "llm_mock: error.retry_after_ms must be a non-negative int".to_string())?,
            ),
        };
        let message = present(value, "message").map(crate::json::display).unwrap_or_default();
        Ok(MockError { category, message, retry_after_ms })
    }

    fn to_error(&self) -> LlmError {
        let mut message = self.message.clone();
        if let Some(ms) = self.retry_after_ms {
            let seconds = ms as f64 / 1000.0;
            message.push_str(&format!("\nretry-after: {seconds}"));
        }
        let mut error = LlmError::new(self.category, message);
        error.retry_after_ms = self.retry_after_ms;
        error
    }
}

fn to_i64(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn add_blocks(out: &mut Response, text: &str) {
    if let Some(thinking) = &out.thinking {
        out.blocks.push(Block::Reasoning(thinking.clone(), None));
    }
    if let Some(summary) = &out.thinking_summary {
        out.blocks.push(Block::ReasoningSummary(summary.clone()));
    }
    if !text.is_empty() {
        out.blocks.push(Block::OutputText(text.to_string()));
    }
    out.blocks.extend(out.tool_calls.iter().cloned().map(Block::ToolCall));
}

/// Splits a string after each run of whitespace. The concatenation of the pieces is the string.
fn cut_after_blanks(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut blank = false;
    for (at, c) in text.char_indices() {
        if blank && !c.is_whitespace() {
            out.push(text[start..at].to_string());
            start = at;
        }
        blank = c.is_whitespace();
    }
    if start < text.len() {
        out.push(text[start..].to_string());
    }
    out
}

/// A reply of the mock.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The reply.
    pub response: Response,
    /// The chunks that a stream delivers.
    pub chunks: Vec<String>,
    /// Whether the chunks were generated because the script defines none.
    pub cut: bool,
    explicit_cache: bool,
}

/// The parts of a request that the mock records or evaluates.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The requested model.
    pub model: &'a str,
    /// The conversation.
    pub messages: &'a Conversation,
    /// The system prompt.
    pub system: Option<&'a str>,
    /// Native tools, as sent.
    pub tools: &'a NativeTools,
    /// The `thinking` option, as recorded.
    pub thinking: &'a Value,
    /// Whether prompt caching is requested.
    pub cache: bool,
    /// Whether the default reply is streamed. Then it consists of the words of the prompt, one chunk each.
    pub in_words: bool,
    /// The schema of the answer, if the call has one.
    pub schema: Option<&'a Value>,
    /// Text that the default reply does not echo (the sentinel of the running loop).
    pub unechoed: Option<&'a str>,
}

/// An answered call; it refers to the conversation with which it was made.
#[derive(Debug, Clone)]
struct Recorded {
    messages: Conversation,
    system: Option<Rc<str>>,
    tools: NativeTools,
    thinking: Value,
}

impl Recorded {
    fn to_json(&self) -> Value {
        let tools = if self.tools.is_empty() { Value::Null } else { self.tools.to_vec().into() };
        json!({
            "messages": self.messages.to_json(), "system": self.system.as_deref(), "tools": tools,
            "thinking": self.thinking,
        })
    }
}

#[derive(Debug, Clone, Default)]
struct Scope {
    queue: VecDeque<Mock>,
    /// Whether replies were queued in this scope.
    had_answers: bool,
    calls: Vec<Recorded>,
    cached: BTreeSet<String>,
}

/// The mocks of a run: the queue, the calls made, and saved scopes.
#[derive(Debug, Clone, Default)]
pub struct MockState {
    now: Scope,
    stash: Vec<Scope>,
    /// Fixtures of `--llm-mock`, used before the queue.
    replay: Option<VecDeque<Mock>>,
}

impl MockState {
    /// Queues a reply.
    ///
    /// # Errors
    /// The dict is invalid.
    pub fn push(&mut self, value: &Value) -> Result<(), String> {
        self.now.queue.push_back(Mock::from_json(value)?);
        self.now.had_answers = true;
        Ok(())
    }

    /// Answers calls from fixtures from now on.
    pub(crate) fn set_replay(&mut self, mut fixtures: Vec<Mock>) {
        in_order_of_calls(&mut fixtures);
        self.replay = Some(fixtures.into());
    }

    /// Removes and returns the recorded rejection of the next call, if that call was rejected before it sent a request.
    pub(crate) fn refused(&mut self) -> Option<String> {
        let queue = self.replay.as_mut()?;
        let next = queue.iter().position(|mock| mock.pattern.is_none())?;
        queue[next].refused.as_ref()?;
        queue.remove(next)?.refused
    }

    /// Returns whether the mock answers calls of any provider.
    pub(crate) fn is_active(&self) -> bool {
        self.replay.is_some() || !self.now.queue.is_empty()
    }

    /// Returns whether replies were queued and all of them have been used.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.now.had_answers && self.now.queue.is_empty()
    }

    /// Returns the recorded calls as dicts.
    pub fn calls(&self) -> Vec<Value> {
        self.now.calls.iter().map(Recorded::to_json).collect()
    }

    /// Clears queue, calls, simulated cache and scopes.
    pub fn clear(&mut self) {
        self.now = Scope::default();
        self.stash.clear();
    }

    /// Saves queue, calls and simulated cache, and starts with empty ones.
    pub(crate) fn push_scope(&mut self) {
        self.stash.push(std::mem::take(&mut self.now));
    }

    /// Restores the scope that the last [`MockState::push_scope`] saved.
    ///
    /// # Errors
    /// No scope is saved.
    pub(crate) fn pop_scope(&mut self) -> Result<(), String> {
        self.now = self.stash.pop().ok_or_else(|| "llm_mock_pop_scope: no scope to pop".to_string())?;
        Ok(())
    }

    /// Records a call before it is answered.
    pub fn record(&mut self, ask: &Ask<'_>) {
        let last = self.now.calls.last().and_then(|call| call.system.clone());
        let system =
            ask.system.map(|text| last.filter(|last| **last == *text).unwrap_or_else(|| text.into()));
        let (messages, tools) = (ask.messages.clone(), ask.tools.clone());
        self.now.calls.push(Recorded { messages, system, tools, thinking: ask.thinking.clone() });
    }

    /// Finds a scripted reply; `None` when none matches.
    pub fn scripted(&mut self, ask: &Ask<'_>) -> Option<Result<Answer, LlmError>> {
        // Built lazily, because most mocks have no pattern.
        let (text, prompt) = (OnceCell::new(), OnceCell::new());
        let prompt = || prompt.get_or_init(|| prompt_text(ask.messages));
        let fits = |m: &Mock| {
            let text = || text.get_or_init(|| match_text(&ask.messages.to_json()));
            m.pattern.as_deref().is_some_and(|p| glob_matches(p, text()) || glob_matches(p, prompt()))
        };
        let mut queues: Vec<&mut VecDeque<Mock>> = self.replay.iter_mut().collect();
        queues.push(&mut self.now.queue);
        for queue in queues {
            let found = match next_of(queue, ask) {
                Some(at) => queue.remove(at),
                None => match queue.iter().position(fits) {
                    Some(at) if queue[at].consume_match => queue.remove(at),
                    Some(at) => Some(queue[at].clone()),
                    None => None,
                },
            };
            if let Some(mock) = found {
                return Some(
                    mock.answer(text_bytes(ask.messages)).map(|answer| self.with_cache(answer, ask)),
                );
            }
        }
        if let Some(replay) = &self.replay {
            let head: String = prompt().chars().take(200).collect();
            let used = if replay.is_empty() { "; all replies of the file are used" } else { "" };
            let message = format!("No --llm-mock fixture matched prompt: \"{head}\"{used}");
            return Some(Err(LlmError::new(Category::Generic, message)));
        }
        None
    }

    /// Returns a reply without a script: a call of the first native tool, a minimal value of the schema, or an echo of
    /// the prompt.
    pub(crate) fn default_answer(&mut self, ask: &Ask<'_>) -> Answer {
        let prompt = prompt_text(ask.messages);
        let mut out = Response::new(PROVIDER, ask.model);
        out.mocked = true;
        out.usage = Usage { input: Some(to_i64(prompt.len())), ..Usage::default() };
        let mut words = Vec::new();
        let tool = ask.tools.iter().find_map(callable);
        if let Some((name, schema)) = tool {
            let arguments = harn_schema::minimal(schema);
            out.tool_calls.push(ToolCall { id: "mock_call_1".into(), name: name.into(), arguments });
            out.usage.output = Some(20);
        } else if let Some(schema) = ask.schema {
            out.usage.output = Some(30);
            out.text = harn_schema::minimal(schema).to_string();
        } else {
            out.usage.output = Some(30);
            words = if ask.in_words { last_words(ask.messages) } else { Vec::new() };
            let count = prompt.split_whitespace().count();
            let shown = match ask.unechoed.filter(|s| !s.is_empty()) {
                Some(sentinel) => prompt.replace(sentinel, ""),
                None => prompt.clone(),
            };
            let shown: String = shown.chars().take(100).collect();
            out.text = if !words.is_empty() {
                words.concat()
            } else if prompt.is_empty() {
                "Mock LLM response".to_string()
            } else {
                format!("Mock response to {count}-word prompt: {shown}")
            };
            if words.is_empty() && ask.system.is_some_and(|s| s.contains("<done>")) {
                out.text = format!("<assistant_prose>{}</assistant_prose>\n<done>##DONE##</done>", out.text);
            }
        }
        let text = out.text.clone();
        add_blocks(&mut out, &text);
        let chunks = if words.is_empty() { cut_after_blanks(&out.text) } else { words };
        self.with_cache(Answer { response: out, chunks, cut: true, explicit_cache: false }, ask)
    }

    /// Simulates the prompt cache: a repeated prompt is a cache hit.
    fn with_cache(&mut self, mut answer: Answer, ask: &Ask<'_>) -> Answer {
        if !ask.cache || answer.explicit_cache {
            return answer;
        }
        let key = crate::json::hash(&json!([ask.model, ask.system, ask.messages.to_json()]));
        let usage = &mut answer.response.usage;
        if self.now.cached.insert(key) {
            usage.cache_write = usage.input;
        } else {
            usage.cache_read = usage.input;
        }
        answer
    }
}

/// Sorts recorded replies, which were written as they finished, into the order in which their calls began. Lines
/// without a number stay at their positions. Duplicate numbers come from several recordings; then nothing is sorted.
fn in_order_of_calls(fixtures: &mut [Mock]) {
    let places: Vec<usize> = (0..fixtures.len()).filter(|at| fixtures[*at].call.is_some()).collect();
    let mut recorded: Vec<Mock> = places.iter().map(|at| fixtures[*at].clone()).collect();
    recorded.sort_by_key(|mock| mock.call);
    if recorded.windows(2).any(|pair| pair[0].call == pair[1].call) {
        return;
    }
    for (at, mock) in places.into_iter().zip(recorded) {
        fixtures[at] = mock;
    }
}

/// Returns the index of the next reply among those without a pattern: the one recorded for the same request, else for
/// the same messages, else the oldest.
fn next_of(queue: &VecDeque<Mock>, ask: &Ask<'_>) -> Option<usize> {
    let oldest = queue.iter().position(|mock| mock.pattern.is_none())?;
    if queue.iter().all(|mock| mock.asked.is_none()) {
        return Some(oldest);
    }
    let asked = Asked::of(ask.model, ask.messages, ask.system);
    let find = |same: &dyn Fn(&Asked) -> bool| {
        queue.iter().position(|mock| mock.pattern.is_none() && mock.asked.as_ref().is_some_and(same))
    };
    let whole = find(&|of: &Asked| of.whole == asked.whole);
    Some(whole.or_else(|| find(&|of: &Asked| of.messages == asked.messages)).unwrap_or(oldest))
}

/// Returns name and schema of a native tool that a model can call; `None` for the meta-tools of providers.
fn callable(tool: &Value) -> Option<(&str, &Value)> {
    let function = tool.get("function").unwrap_or(tool);
    let schema = function.get("parameters").or_else(|| function.get("input_schema"))?;
    Some((str_at(function, "name")?, schema))
}

/// Returns the words of the last message.
fn last_words(messages: &Conversation) -> Vec<String> {
    let last = messages.last().map(|m| m.to_json()).unwrap_or_default();
    str_at(&last, "content").unwrap_or_default().split_whitespace().map(str::to_string).collect()
}

/// Returns the number of bytes that patterns are matched against: all strings of the messages, one per line.
fn text_bytes(messages: &Conversation) -> usize {
    let (strings, bytes) = messages.strings();
    bytes + strings.saturating_sub(1)
}

#[cfg(test)]
mod tests;
