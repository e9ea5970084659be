//! The HTTP client behind the `http_*` builtins: options, mocks, the sending with its retries.

mod mock;
mod options;
mod send;

pub(crate) use mock::Mocks;
pub use options::Doubts;
pub(crate) use options::{NAMES, Options, uncertain};
pub(crate) use send::{download, send};
