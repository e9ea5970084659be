//! The HTTP client of the `http_*` builtins: options, mocks, and sending with retries.

pub(crate) mod egress;
mod mock;
mod options;
mod send;
pub(crate) mod session;
mod tls;
mod wrong;

pub(crate) use mock::{Mocks, glob_matches, redacted_url};
pub use options::Doubts;
pub(crate) use options::{
    HttpOptions, MethodOptions, Options, SessionRequestOptions, SseOptions, WebsocketOptions, uncertain,
};
pub(crate) use send::{download, open_stream, send};
