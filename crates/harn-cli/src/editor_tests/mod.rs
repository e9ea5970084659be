//! The language server as an editor sees it: through the protocol, on pipes in memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod client;
mod files;
mod renames;
mod templates;
mod typing;
mod words;
