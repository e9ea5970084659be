//! The servers of all wire formats: what each demands of a request, and how it says a reply.
//!
//! `rules/` holds JSON Schemas of request bodies; what a schema cannot say is in each format's `rules`.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "the tests of several crates use their part, and may panic"
)]

mod anthropic;
mod bedrock;
pub(crate) mod cases;
mod gemini;
mod ollama;
mod openai;
mod responses;

use harn_value::Data as Value;

use crate::support::Seen;
use cases::Case;

/// How one server answers, and what it demands.
pub(crate) trait Format {
    fn name(&self) -> &'static str;
    /// Options that lead to it, without its address.
    fn options(&self) -> Value;
    /// Options that ask it to reason; nothing when it cannot.
    fn thinking(&self) -> Option<Value> {
        None
    }
    /// Cases that the format or its model does not know.
    fn lacks(&self) -> &'static [&'static str] {
        &[]
    }
    /// JSON Schema of a request body.
    fn schema(&self) -> &'static str;
    /// What is wrong with a request beyond its schema.
    fn rules(&self, seen: &Seen, streamed: bool) -> Vec<String>;
    /// The reply in one piece; nothing when the server always streams.
    fn whole(&self, case: &Case) -> Option<Value>;
    /// The reply as a stream with its content type; nothing when the server never streams.
    fn stream(&self, case: &Case) -> Option<(&'static str, String)>;
    /// The result fields where they differ from those of the case.
    fn adjust(&self, _case: &Case, _expected: &mut Value) {}
}

/// One of each.
pub(crate) fn formats() -> Vec<Box<dyn Format>> {
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
        Box::new(gemini::Gemini { provider: "gemini" }),
        Box::new(gemini::Gemini { provider: "vertex" }),
        Box::new(bedrock::Bedrock),
    ]
}

/// The keys that they want.
pub(crate) const ENV: &[(&str, &str)] = &[
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

/// Events of a stream, each with its name when the format has names.
fn sse(events: &[Value], named: bool) -> String {
    let line = |e: &Value| match e["type"].as_str().filter(|_| named) {
        Some(name) => format!("event: {name}\ndata: {e}\n\n"),
        None => format!("data: {e}\n\n"),
    };
    events.iter().map(line).collect()
}

/// Cuts text as a model's tokens do: at blanks.
fn tokens(text: &str) -> Vec<&str> {
    text.split_inclusive(' ').collect()
}

/// The halves of JSON text.
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

/// The path and query of a request.
fn target(seen: &Seen) -> &str {
    seen.line.strip_prefix("POST ").and_then(|l| l.strip_suffix(" HTTP/1.1")).unwrap_or(&seen.line)
}
