//! Reads the body of a reply chunk by chunk, whether it is a stream or a single JSON value.

use std::borrow::Cow;
use std::collections::BTreeMap;

use harn_value::Data as Value;

use super::names::wire_name;
use super::node::Node;
use super::{Decode, decoder, not_a_reply, ollama, read_reply};
use crate::error::{Category, LlmError};
use crate::event::{StreamEvent, Usage};
use crate::json::str_at;
use crate::request::Request;
use crate::secret::Secret;
use crate::sse::{FrameError, Framing};
use crate::structured::{replace_lone_surrogates, without_lone_surrogates};

/// Reads the body of a successful HTTP reply.
pub struct ReplyReader {
    framer: crate::sse::Framer,
    stream: StreamState,
    mode: Mode,
    limit: usize,
    /// Bytes of a reply in one piece, or the start of a stream for error messages.
    buffer: Vec<u8>,
    /// The maximum size of that start in bytes.
    head: usize,
    /// Bytes of a stream read so far.
    taken: usize,
}

/// The state of a stream's messages.
struct StreamState {
    provider: String,
    framing: Framing,
    decode: Box<dyn Decode>,
    messages: usize,
    usage: Usage,
    over: bool,
    secrets: Vec<Secret>,
    names: Names,
    halves: Halves,
}

/// Surrogate pairs that arrive in two messages of a stream, as some servers split their JSON inside characters.
#[derive(Default)]
struct Halves {
    any: bool,
    /// The pending high surrogate of each strand.
    open: BTreeMap<Strand, u32>,
}

/// A part of a reply that arrives in fragments.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strand {
    Text,
    Reasoning,
    Call(usize),
}

/// The start of a private-use range into which surrogates are mapped temporarily.
const HALVES: u32 = 0x10_F000;

impl Halves {
    /// Maps unpaired surrogates, which JSON parsers reject, to private-use characters.
    fn mark(&mut self, text: &str) -> Option<String> {
        let mark = |code: u32, out: &mut String| {
            out.push(char::from_u32(HALVES + code - 0xD800).unwrap_or(char::REPLACEMENT_CHARACTER));
        };
        let marked = replace_lone_surrogates(text, mark)?;
        self.any = true;
        Some(marked)
    }

    /// Joins surrogate pairs. An unpaired surrogate becomes U+FFFD.
    fn join(&mut self, events: &mut [StreamEvent]) {
        if !self.any {
            return;
        }
        for event in events {
            let (strand, text) = match event {
                StreamEvent::Text(text) => (Strand::Text, text),
                StreamEvent::Reasoning(text) => (Strand::Reasoning, text),
                StreamEvent::ToolCallDelta { index, arguments } => (Strand::Call(*index), arguments),
                _ => continue,
            };
            let mut out = String::with_capacity(text.len());
            for c in text.chars() {
                let half = u32::from(c).checked_sub(HALVES).filter(|half| *half < 0x800);
                let first = self.open.remove(&strand);
                match (first, half) {
                    (Some(high), Some(low)) if low >= 0x400 => {
                        let code = 0x1_0000 + (high << 10) + (low - 0x400);
                        out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                        continue;
                    }
                    (Some(_), _) => out.push(char::REPLACEMENT_CHARACTER),
                    (None, _) => {}
                }
                match half {
                    Some(high) if high < 0x400 => {
                        self.open.insert(strand, high);
                    }
                    Some(_) => out.push(char::REPLACEMENT_CHARACTER),
                    None => out.push(c),
                }
            }
            *text = out;
        }
    }

    /// Ends the reply: pending surrogates remain unpaired.
    fn finish(&mut self, out: &mut Vec<StreamEvent>) {
        let lost = || char::REPLACEMENT_CHARACTER.to_string();
        out.extend(std::mem::take(&mut self.open).into_keys().map(|strand| match strand {
            Strand::Text => StreamEvent::Text(lost()),
            Strand::Reasoning => StreamEvent::Reasoning(lost()),
            Strand::Call(index) => StreamEvent::ToolCallDelta { index, arguments: lost() },
        }));
    }
}

/// The tools whose names differ on the wire: wire name and original name.
struct Names(Vec<(String, String)>);

impl Names {
    fn of(request: &Request) -> Names {
        let name = |tool: &Value| {
            let own = str_at(tool.get("function").unwrap_or(tool), "name")?;
            let wire = wire_name(own);
            (*wire != *own).then(|| (wire.into_owned(), own.to_owned()))
        };
        Names(request.tools.iter().filter_map(name).collect())
    }

    /// Restores the original tool names.
    fn restore(&self, events: &mut [StreamEvent]) {
        if self.0.is_empty() {
            return;
        }
        let own = |name: &mut String| {
            if let Some((_, own)) = self.0.iter().find(|(wire, _)| wire == name) {
                name.clone_from(own);
            }
        };
        for event in events {
            match event {
                StreamEvent::ToolCallStart { name: Some(name), .. } => own(name),
                StreamEvent::SearchResult { tool_names, .. } => tool_names.iter_mut().for_each(own),
                _ => {}
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Only whitespace so far.
    Unknown,
    Stream,
    Whole,
}

impl ReplyReader {
    /// Creates a reader for the reply to `request`; `streamed` says whether a stream was requested.
    pub fn new(request: &Request, streamed: bool) -> Self {
        let framing = request.route.style.framing();
        ReplyReader {
            framer: crate::sse::Framer::new(framing, request.max_response_bytes),
            stream: StreamState {
                provider: request.route.provider.clone(),
                framing,
                decode: decoder(request),
                messages: 0,
                usage: Usage::default(),
                over: false,
                secrets: request.route.secrets().collect(),
                names: Names::of(request),
                halves: Halves::default(),
            },
            mode: match (streamed, framing) {
                (false, _) => Mode::Whole,
                (true, Framing::Lines) => Mode::Stream,
                (true, Framing::Sse | Framing::EventStream) => Mode::Unknown,
            },
            limit: request.max_response_bytes,
            buffer: Vec::new(),
            head: 200 + request.route.longest_secret(),
            taken: 0,
        }
    }

    /// Returns whether the reply is complete, so that the connection can be closed.
    pub fn is_over(&self) -> bool {
        self.stream.over
    }

    /// Returns the usage reported so far, for errors.
    pub fn usage(&self) -> Usage {
        self.stream.usage
    }

    fn too_long(&self) -> LlmError {
        let limit = self.limit;
        let message = format!(
            "{} response too large: more than max_response_bytes = {limit} bytes",
            self.stream.provider
        );
        let mut error = LlmError::new(Category::ServerError, message);
        error.kind = crate::error::Kind::Terminal;
        error
    }

    /// Processes a chunk of the body and appends the events that it completes.
    ///
    /// # Errors
    /// The stream reports an error, is malformed, or is too long.
    pub fn feed(&mut self, chunk: &[u8], out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        if self.stream.over {
            return Ok(());
        }
        let mut chunk = chunk;
        let is_binary = self.stream.framing == Framing::EventStream;
        if self.mode == Mode::Unknown && is_binary {
            // A message of less than 16 MiB starts with a zero byte; anything else is text.
            match chunk.first() {
                None => return Ok(()),
                Some(0) => self.mode = Mode::Stream,
                Some(_) => self.mode = Mode::Whole,
            }
        }
        if self.mode == Mode::Unknown {
            let blank = chunk.iter().take_while(|b| b.is_ascii_whitespace()).count();
            chunk = &chunk[blank..];
            match chunk.first() {
                None => return Ok(()),
                Some(b'{' | b'[') => self.mode = Mode::Whole,
                Some(_) => self.mode = Mode::Stream,
            }
        }
        if self.mode == Mode::Whole {
            if self.buffer.len() + chunk.len() > self.limit {
                return Err(self.too_long());
            }
            self.buffer.extend_from_slice(chunk);
            return Ok(());
        }
        let room = self.head.saturating_sub(self.buffer.len());
        self.buffer.extend_from_slice(&chunk[..chunk.len().min(room)]);
        self.taken += chunk.len();
        let mut read = Ok(());
        let fed = self.framer.feed(chunk, &mut |text| self.stream.message(text, out, &mut read));
        read?;
        match fed {
            _ if self.stream.over => Ok(()),
            Err(FrameError::Corrupt(what)) => Err(self.broken(what)),
            Err(FrameError::TooLong) => Err(self.too_long()),
            Ok(()) if self.taken > self.limit => Err(self.too_long()),
            Ok(()) => Ok(()),
        }
    }

    /// Ends the body.
    ///
    /// # Errors
    /// The reply is incomplete or not in the format.
    pub fn finish(
        &mut self,
        request: &Request,
        content_type: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        if self.mode == Mode::Whole && !self.stream.over {
            let text = String::from_utf8_lossy(&self.buffer);
            if text.trim().is_empty() {
                return Err(self.broken_off("empty reply"));
            }
            let replaced = Node::parse(&text).err().and_then(|_| without_lone_surrogates(&text));
            let text = replaced.map_or(text, Cow::Owned);
            let value = Node::parse(&text).map_err(|e| {
                // A truncated value is a connection failure, not another format.
                if e.is_eof() && self.started_as_json(&text) {
                    self.broken_off("the JSON body ends early")
                } else {
                    not_a_reply(
                        &self.stream.provider,
                        &e.to_string(),
                        content_type,
                        &request.route.hide(&text),
                    )
                }
            })?;
            let events = read_reply(request, &value).map_err(|error| {
                // An error quotes a truncated part of the reply, so it is created again from a reply with redacted
                // keys.
                let hidden = request.route.hide(&text);
                let again = Node::parse(&hidden).ok().and_then(|value| read_reply(request, &value).err());
                again.unwrap_or(error)
            })?;
            out.push(StreamEvent::Whole);
            let start = out.len();
            out.extend(events);
            self.stream.names.restore(&mut out[start..]);
            return Ok(());
        }
        let mut read = Ok(());
        self.framer.finish(&mut |text| self.stream.message(text, out, &mut read));
        read?;
        let StreamState { provider, messages, usage, framing, decode, .. } = &mut self.stream;
        if !decode.is_complete() {
            let is_text = *framing != Framing::EventStream;
            let head = request.route.hide(&String::from_utf8_lossy(&self.buffer));
            if is_text && *messages == 0 && !head.trim().is_empty() && !looks_like_events(&head) {
                return Err(not_a_reply(provider, "not an event stream", content_type, &head));
            }
            if *framing == Framing::Lines {
                let when = if *messages == 0 { "before any chunks" } else { "after partial content" };
                let message = format!("{provider} stream error: unexpected EOF before done=true {when}");
                return Err(LlmError::new(Category::TransientNetwork, message).with_usage(*usage));
            }
            return Err(self.broken_off("the stream ended before its terminal event"));
        }
        let start = out.len();
        decode.finish(out);
        self.stream.halves.join(&mut out[start..]);
        self.stream.halves.finish(out);
        Ok(())
    }

    fn started_as_json(&self, text: &str) -> bool {
        text.trim_start().starts_with(['{', '['])
    }

    fn broken_off(&self, what: &str) -> LlmError {
        self.broken(&format!("unexpected EOF, {what}"))
    }

    fn broken(&self, what: &str) -> LlmError {
        let message = format!("{} stream error (body): {what}", self.stream.provider);
        LlmError::new(Category::TransientNetwork, message).with_usage(self.stream.usage)
    }
}

impl StreamState {
    fn hide(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_string(), |text, secret| secret.redact(&text))
    }

    /// Decodes a message, unless the reply is complete or has failed.
    fn message(&mut self, text: &str, out: &mut Vec<StreamEvent>, read: &mut Result<(), LlmError>) {
        if self.over || read.is_err() {
            return;
        }
        if text.trim() == "[DONE]" {
            self.messages += 1;
            self.decode.done();
        } else {
            let marked;
            let parsed = match Node::parse(text) {
                Err(error) => match self.halves.mark(text) {
                    Some(text) => {
                        marked = text;
                        Node::parse(&marked)
                    }
                    None => Err(error),
                },
                parsed => parsed,
            };
            match parsed {
                Ok(value) => {
                    self.messages += 1;
                    let start = out.len();
                    *read = self.decode.message(&value, out);
                    self.names.restore(&mut out[start..]);
                    self.halves.join(&mut out[start..]);
                    for event in &out[start..] {
                        if let StreamEvent::Usage(usage) = event {
                            self.usage.merge(*usage);
                        }
                    }
                }
                // Ignores keep-alive messages that are not JSON. The line protocol has none.
                Err(_) if self.framing == Framing::Sse && !text.contains(['{', '}', '[', ']', '"']) => {}
                // A part of the reply is lost, and the remaining text must not be mistaken for the whole reply.
                Err(e) => {
                    let error = line_error(&self.provider, self.framing, &e, &self.hide(text));
                    *read = Err(error.with_usage(self.usage));
                }
            }
        }
        self.over = self.decode.is_over();
    }
}

/// Creates the error of a message that is not valid JSON. It is treated as a connection failure, because a retry may
/// succeed.
fn line_error(provider: &str, framing: Framing, error: &serde_json::Error, text: &str) -> LlmError {
    match framing {
        Framing::Lines => ollama::line_error(provider, error, text),
        Framing::Sse | Framing::EventStream => {
            let head = crate::json::clip(text, 200);
            let message =
                format!("{provider} stream error (body): an event is not valid JSON, {error}: {head}");
            LlmError::new(Category::TransientNetwork, message)
        }
    }
}

fn looks_like_events(head: &str) -> bool {
    ["data:", "event:", "id:", "retry:", ":"].iter().any(|field| head.trim_start().starts_with(field))
}
