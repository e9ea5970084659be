//! Loopback servers that validate requests and reply like the APIs of model providers.
//!
//! `schemas/` contains JSON Schemas of request bodies, `rules.toml` every rule that a schema cannot express, with
//! its source. A [`Format`] is the server of one provider: its required address and headers, and its replies.

mod anthropic;
mod bedrock;
pub mod cases;
mod event_stream;
mod exchange;
mod gemini;
mod history;
mod ollama;
mod openai;
mod responses;
mod rules;

use harn_value::Data as Value;

pub use anthropic::Anthropic;
pub use bedrock::Bedrock;
use cases::Case;
pub use event_stream::{event, exception};
pub use exchange::{Request, answer, log_directory, record, record_request};
pub use gemini::Gemini;
pub use ollama::Ollama;
pub use openai::OpenAi;
pub use responses::Responses;
pub use rules::{Api, Violation, of_conversation, rule_names, violation};

/// The server of one provider: its requirements and replies.
pub trait Format: Send {
    fn name(&self) -> &'static str;
    /// Returns the options that select it, without its address.
    fn options(&self) -> Value;
    /// Returns the options that enable reasoning; `None` if it is not supported.
    fn thinking(&self) -> Option<Value> {
        None
    }
    /// Returns the cases that the format or its model does not support.
    fn lacks(&self) -> &'static [&'static str] {
        &[]
    }
    /// Returns the problems with the address, the headers and the options of a request to this provider.
    fn rules(&self, seen: &Request, streamed: bool) -> Vec<String>;
    /// Returns the reply in one piece; `None` if the server always streams.
    fn whole(&self, case: &Case) -> Option<Value>;
    /// Returns the reply as a stream with its content type; `None` if the server never streams.
    fn stream(&self, case: &Case) -> Option<(&'static str, Vec<u8>)>;
    /// Changes the expected result fields that differ from those of the case.
    fn adjust(&self, _case: &Case, _expected: &mut Value) {}
}

/// Returns all formats.
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![
        Box::new(anthropic::Anthropic { model: "claude-sonnet-4-20250514" }),
        Box::new(anthropic::Anthropic { model: "claude-opus-4-7" }),
        Box::new(openai::OpenAi { provider: "openai", model: "gpt-4o" }),
        Box::new(openai::OpenAi { provider: "openai", model: "o4-mini" }),
        Box::new(openai::OpenAi { provider: "openrouter", model: "google/gemini-2.5-pro" }),
        Box::new(openai::OpenAi { provider: "dashscope", model: "qwen3.6-plus" }),
        Box::new(openai::OpenAi { provider: "azure_openai", model: "gpt-4o-prod" }),
        Box::new(responses::Responses),
        Box::new(ollama::Ollama { model: "qwen3:8b" }),
        Box::new(ollama::Ollama { model: "llama3.2-vision" }),
        Box::new(gemini::Gemini { provider: "gemini", model: "gemini-2.5-pro" }),
        Box::new(gemini::Gemini { provider: "gemini", model: "gemini-3.1-pro-preview" }),
        Box::new(gemini::Gemini { provider: "vertex", model: "gemini-2.5-pro" }),
        Box::new(bedrock::Bedrock { model: "anthropic.claude-sonnet-4-20250514-v1:0" }),
        Box::new(bedrock::Bedrock { model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0" }),
        Box::new(bedrock::Bedrock { model: "global.anthropic.claude-opus-4-7" }),
    ]
}

/// The API keys that they require.
pub const ENV: &[(&str, &str)] = &[
    ("OPENAI_API_KEY", "k-openai"),
    ("ANTHROPIC_API_KEY", "k-anthropic"),
    ("OPENROUTER_API_KEY", "k-openrouter"),
    ("DASHSCOPE_API_KEY", "k-dashscope"),
    ("GEMINI_API_KEY", "k-gemini"),
    ("AZURE_OPENAI_API_KEY", "k-azure"),
    ("VERTEX_AI_ACCESS_TOKEN", "k-vertex"),
    ("VERTEX_AI_PROJECT", "p1"),
    ("AWS_ACCESS_KEY_ID", "AKID"),
    ("AWS_SECRET_ACCESS_KEY", "aws-secret"),
];

/// Formats the events of a stream, with event names if the format has them.
fn sse(events: &[Value], named: bool) -> String {
    let line = |e: &Value| match e["type"].as_str().filter(|_| named) {
        Some(name) => format!("event: {name}\ndata: {e}\n\n"),
        None => format!("data: {e}\n\n"),
    };
    events.iter().map(line).collect()
}

/// Splits text at spaces, like the tokens of a model.
fn tokens(text: &str) -> Vec<&str> {
    text.split_inclusive(' ').collect()
}

/// Splits JSON into two halves.
fn halves(value: &Value) -> [String; 2] {
    let text = value.to_string();
    let middle = (0..=text.len() / 2).rev().find(|n| text.is_char_boundary(*n)).unwrap();
    [text[..middle].to_string(), text[middle..].to_string()]
}

fn require(broken: &mut Vec<String>, holds: bool, rule: &str) {
    if !holds {
        broken.push(rule.to_string());
    }
}
