//! Wire formats: pure conversions from a [`Request`] to a provider's JSON, and from its replies to
//! [`StreamEvent`]s. One file per format; nothing here does I/O.

pub mod anthropic;
pub(crate) mod bedrock;
pub(crate) mod completion;
pub mod gemini;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
pub mod think;

use serde_json::Value;

use crate::error::{CallError, Category, LlmError};
use crate::event::{StreamEvent, Usage};
use crate::json::Object;
use crate::request::Request;
use crate::sse::Framing;
use crate::tools::ToolShape;

/// The wire formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireStyle {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions and its many relatives.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Ollama's `/api/chat`.
    OllamaChat,
    /// Ollama's `/api/generate` with a prompt we render.
    OllamaRaw,
    /// Google's `generateContent`.
    Gemini,
    /// Amazon's Converse.
    Bedrock,
    /// OpenAI's text completions.
    Completion,
    /// Ollama's `/api/generate` for text completions.
    OllamaCompletion,
}

impl WireStyle {
    /// Returns the format of a provider's chat endpoint.
    pub fn of(endpoint: &str) -> WireStyle {
        if endpoint.contains(":generateContent") {
            WireStyle::Gemini
        } else if endpoint.ends_with("/converse") {
            WireStyle::Bedrock
        } else if endpoint.contains("/messages") {
            WireStyle::Anthropic
        } else if endpoint.contains("/responses") {
            WireStyle::OpenAiResponses
        } else if endpoint.contains("/api/chat") {
            WireStyle::OllamaChat
        } else {
            WireStyle::OpenAiChat
        }
    }

    /// Returns the format of a provider's completion endpoint.
    pub fn of_completion(endpoint: &str) -> WireStyle {
        if endpoint.contains("/api/generate") { WireStyle::OllamaCompletion } else { WireStyle::Completion }
    }

    /// Returns whether text is continued, not a conversation.
    pub fn is_completion(self) -> bool {
        matches!(self, WireStyle::Completion | WireStyle::OllamaCompletion)
    }

    /// Returns the shape of native tools.
    pub fn tool_shape(self) -> ToolShape {
        match self {
            WireStyle::Anthropic => ToolShape::Anthropic,
            _ => ToolShape::OpenAi,
        }
    }

    /// Returns whether system messages may stand in the message list.
    pub fn has_system_role(self) -> bool {
        !matches!(self, WireStyle::Anthropic | WireStyle::Gemini | WireStyle::Bedrock)
    }

    /// Returns how the messages of a stream are separated.
    pub fn framing(self) -> Framing {
        match self {
            WireStyle::OllamaChat | WireStyle::OllamaRaw => Framing::Lines,
            _ => Framing::Sse,
        }
    }
}

/// Something the user should hear about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The message.
    pub text: String,
    /// Whether it is said only once per runtime.
    pub once: bool,
}

/// A request in a provider's own form.
#[derive(Debug, Clone, PartialEq)]
pub struct WireRequest {
    /// Whole address.
    pub url: String,
    /// Headers of the format, beyond content type, authorisation and those of the route.
    pub headers: Vec<(String, String)>,
    /// JSON body.
    pub body: Value,
    /// Whether the body asks for a stream.
    pub stream: bool,
    /// Things the format could not express.
    pub warnings: Vec<Warning>,
}

/// Writes a request in the form of its route.
///
/// # Errors
/// The request holds something that the format cannot carry.
pub fn encode(request: &Request) -> Result<WireRequest, CallError> {
    match request.route.style {
        WireStyle::Anthropic => anthropic::encode(request),
        WireStyle::OpenAiChat => openai_chat::encode(request),
        WireStyle::OpenAiResponses => openai_responses::encode(request),
        WireStyle::OllamaChat => ollama::encode_chat(request),
        WireStyle::OllamaRaw => ollama::encode_raw(request),
        WireStyle::Gemini => gemini::encode(request),
        WireStyle::Bedrock => bedrock::encode(request),
        WireStyle::Completion => Ok(completion::encode(request)),
        WireStyle::OllamaCompletion => Ok(completion::encode_ollama(request)),
    }
}

/// Merges provider overrides into a body: top-level keys replace. They are written in sorted order, so
/// that the same call gives the same bytes and caches hit.
fn merge_overrides(body: &mut Object, overrides: &Object) {
    body.extend(sent_overrides(overrides));
}

/// The overrides that are sent, sorted.
fn sent_overrides(overrides: &Object) -> std::collections::BTreeMap<String, Value> {
    let sent = overrides.iter().filter(|(key, _)| *key != "force_native_tool_search");
    sent.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Returns the warning about an option that a provider does not take.
fn unsupported(param: &str, provider: &str) -> Warning {
    Warning {
        text: format!("\"{param}\" is not supported by provider \"{provider}\", ignoring"),
        once: false,
    }
}

/// Reads the messages of a stream in one format.
trait Decode {
    /// Takes one message of the stream.
    fn message(&mut self, value: &Value, out: &mut Vec<StreamEvent>) -> Result<(), LlmError>;
    /// Takes the `[DONE]` marker.
    fn done(&mut self) {}
    /// Returns whether the reply is complete, so that the end of the stream is no surprise.
    fn is_complete(&self) -> bool;
    /// Returns whether nothing more is worth waiting for.
    fn is_over(&self) -> bool;
    /// Gives out what was held back.
    fn finish(&mut self, _out: &mut Vec<StreamEvent>) {}
}

fn decoder(request: &Request) -> Box<dyn Decode> {
    let provider = request.route.provider.clone();
    match request.route.style {
        WireStyle::Anthropic => Box::new(anthropic::Decoder::new(provider)),
        WireStyle::OpenAiChat => Box::new(openai_chat::Decoder::new(provider)),
        WireStyle::OpenAiResponses => Box::new(openai_responses::Decoder::new(provider)),
        WireStyle::OllamaChat | WireStyle::OllamaRaw => Box::new(ollama::Decoder::new(provider)),
        WireStyle::Gemini => Box::new(gemini::Decoder::new(provider)),
        // Never streamed, so the decoder of streams is never asked.
        WireStyle::Bedrock | WireStyle::Completion | WireStyle::OllamaCompletion => {
            Box::new(openai_chat::Decoder::new(provider))
        }
    }
}

/// Reads a reply that came in one piece.
///
/// # Errors
/// The reply describes an error, or is no reply of this format.
pub fn read_reply(request: &Request, body: &Value) -> Result<Vec<StreamEvent>, LlmError> {
    let provider = &request.route.provider;
    match request.route.style {
        WireStyle::Anthropic => anthropic::read(provider, body),
        WireStyle::OpenAiChat => openai_chat::read(provider, body),
        WireStyle::OpenAiResponses => openai_responses::read(provider, body),
        WireStyle::OllamaChat | WireStyle::OllamaRaw => ollama::read(provider, body),
        WireStyle::Gemini => gemini::read(provider, body),
        WireStyle::Bedrock => bedrock::read(provider, body),
        WireStyle::Completion => completion::read(provider, body),
        WireStyle::OllamaCompletion => completion::read_ollama(provider, body),
    }
}

/// Says that a reply is no reply of the format, with the content type and the first 200 bytes.
fn not_a_reply(provider: &str, what: &str, content_type: &str, head: &str) -> LlmError {
    let head = crate::json::clip(head, 200);
    LlmError::new(
        Category::ServerError,
        format!("{provider} response parse error: {what} (content type {content_type}): {head}"),
    )
}

/// Says that a JSON reply has another shape than the format's.
fn wrong_shape(provider: &str, body: &Value) -> LlmError {
    not_a_reply(provider, "unexpected JSON", "application/json", &body.to_string())
}

/// Returns the error an `error` member of a reply describes, if there is one.
fn error_member(provider: &str, body: &Value) -> Option<LlmError> {
    body.get("error").filter(|e| !e.is_null()).map(|e| LlmError::api(provider, e))
}

/// Reads the body of a successful HTTP reply, chunk by chunk, whether it turns out to be a stream or
/// one JSON value.
pub struct ReplyReader {
    framer: crate::sse::Framer,
    stream: StreamState,
    mode: Mode,
    limit: usize,
    /// Bytes of a reply in one piece, or the head of a stream for error messages.
    buffer: Vec<u8>,
    /// Bytes of a stream so far.
    taken: usize,
}

/// How far the messages of a stream have been read.
struct StreamState {
    provider: String,
    framing: Framing,
    decode: Box<dyn Decode>,
    messages: usize,
    usage: Usage,
    over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Nothing but blanks so far.
    Unknown,
    Stream,
    Whole,
}

impl ReplyReader {
    /// Makes a reader for the reply to `request`; `streamed` tells whether a stream was asked for.
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
            },
            mode: match (streamed, framing) {
                (false, _) => Mode::Whole,
                (true, Framing::Lines) => Mode::Stream,
                (true, Framing::Sse) => Mode::Unknown,
            },
            limit: request.max_response_bytes,
            buffer: Vec::new(),
            taken: 0,
        }
    }

    /// Returns whether the reply is finished and the connection can be closed.
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

    /// Takes a chunk of the body and appends the events it completes.
    ///
    /// # Errors
    /// The stream reports an error, is malformed, or too long.
    pub fn feed(&mut self, chunk: &[u8], out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        if self.stream.over {
            return Ok(());
        }
        let mut chunk = chunk;
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
        let room = 200usize.saturating_sub(self.buffer.len());
        self.buffer.extend_from_slice(&chunk[..chunk.len().min(room)]);
        self.taken += chunk.len();
        let mut read = Ok(());
        let fed = self.framer.feed(chunk, &mut |text| self.stream.message(text, out, &mut read));
        read?;
        if (fed.is_err() || self.taken > self.limit) && !self.stream.over {
            return Err(self.too_long());
        }
        Ok(())
    }

    /// Ends the body.
    ///
    /// # Errors
    /// The reply is not complete or not of the format.
    pub fn finish(
        &mut self,
        request: &Request,
        content_type: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        if self.mode == Mode::Whole && !self.stream.over {
            let text = String::from_utf8_lossy(&self.buffer).into_owned();
            if text.trim().is_empty() {
                return Err(self.broken_off("empty reply"));
            }
            let value: Value = serde_json::from_str(&text).map_err(|e| {
                // A value cut short is a broken connection, not another language.
                if e.is_eof() && self.started_as_json(&text) {
                    self.broken_off("the JSON body ends early")
                } else {
                    not_a_reply(&self.stream.provider, &e.to_string(), content_type, &text)
                }
            })?;
            out.extend(read_reply(request, &value)?);
            return Ok(());
        }
        let mut read = Ok(());
        self.framer.finish(&mut |text| self.stream.message(text, out, &mut read));
        read?;
        let StreamState { provider, messages, usage, framing, decode, .. } = &mut self.stream;
        if !decode.is_complete() {
            let head = String::from_utf8_lossy(&self.buffer).into_owned();
            if *messages == 0 && !head.trim().is_empty() && !looks_like_events(&head) {
                return Err(not_a_reply(provider, "not an event stream", content_type, &head));
            }
            if *framing == Framing::Lines {
                let when = if *messages == 0 { "before any chunks" } else { "after partial content" };
                let message = format!("{provider} stream error: unexpected EOF before done=true {when}");
                return Err(LlmError::new(Category::TransientNetwork, message).with_usage(*usage));
            }
            return Err(self.broken_off("the stream ended before its terminal event"));
        }
        decode.finish(out);
        Ok(())
    }

    fn started_as_json(&self, text: &str) -> bool {
        text.trim_start().starts_with(['{', '['])
    }

    fn broken_off(&self, what: &str) -> LlmError {
        let message = format!("{} stream error (body): unexpected EOF, {what}", self.stream.provider);
        LlmError::new(Category::TransientNetwork, message).with_usage(self.stream.usage)
    }
}

impl StreamState {
    /// Takes a message, unless the reply is over or has failed.
    fn message(&mut self, text: &str, out: &mut Vec<StreamEvent>, read: &mut Result<(), LlmError>) {
        if self.over || read.is_err() {
            return;
        }
        if text.trim() == "[DONE]" {
            self.messages += 1;
            self.decode.done();
        } else {
            match serde_json::from_str::<Value>(text) {
                Ok(value) => {
                    self.messages += 1;
                    let start = out.len();
                    *read = self.decode.message(&value, out);
                    for event in &out[start..] {
                        if let StreamEvent::Usage(usage) = event {
                            self.usage.merge(*usage);
                        }
                    }
                }
                // Stray lines in event streams are tolerated; a line protocol has none.
                Err(_) if self.framing == Framing::Sse => {}
                Err(e) => *read = Err(ollama::line_error(&self.provider, &e, text)),
            }
        }
        self.over = self.decode.is_over();
    }
}

fn looks_like_events(head: &str) -> bool {
    ["data:", "event:", "id:", "retry:", ":"].iter().any(|field| head.trim_start().starts_with(field))
}
