//! Tests of the language server through the protocol, on in-memory pipes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod client;
mod files;
mod renames;
mod templates;
mod typing;
mod words;
