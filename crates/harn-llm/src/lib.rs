//! Provider-neutral model calls: options, routes, wire formats, transport, mock, cost and recording.
//!
//! The crate does not depend on the VM. It accepts and returns data (`harn_value::Data`) and plain structs, and reaches
//! the outside world (environment, clock, warnings, prompt templates) only through [`Embedder`], so that a test or an
//! embedding program controls what a call can access.
//!
//! Read first: `runtime/` (the sequence of one call), then `wire/` (one file per wire format: request to JSON and reply
//! to [`StreamEvent`]s), `options/` (the option dict), `config/` (providers, aliases, routes) and `mock/` (replies
//! without a network).
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![forbid(unsafe_code)]

pub mod call_log;
pub mod capabilities;
pub mod config;
pub mod conversation;
pub mod cost;
mod dialect;
pub mod embedder;
pub mod error;
mod estimate;
pub mod event;
mod event_stream;
pub mod experiment;
#[cfg(test)]
mod growth;
pub mod json;
pub mod media;
pub mod message;
pub mod mock;
pub mod models;
pub mod notices;
pub mod options;
pub mod rate_limit;
pub mod record;
mod reply_head;
pub mod request;
pub mod response;
mod result_parts;
pub mod retry;
mod retry_after;
pub mod runtime;
#[cfg(test)]
mod sample;
pub mod secret;
pub mod sigv4;
mod spread;
pub mod sse;
pub mod structured;
pub mod tool_text;
pub mod tool_vault;
pub mod tools;
pub mod transcript;
pub mod transport;
pub mod wire;

pub use capabilities::{Capabilities, CapabilityMatrix};
pub use config::Config;
pub use conversation::Conversation;
pub use embedder::{Embedder, Fragment, StdEmbedder, SystemText};
pub use error::{CallError, Category, Kind, LlmError, OptionError};
pub use event::{StopReason, StreamEvent, Usage};
pub use message::{ContentBlock, Message, Role, ToolCall};
pub use mock::Mock;
pub use options::CallOptions;
pub use request::{Request, Route};
pub use response::Response;
pub use runtime::{Call, LlmRuntime, Prepared, RequestObserver};
pub use secret::Secret;
pub use tools::{ToolDef, ToolSet};

/// Includes the README, so that its example is tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
