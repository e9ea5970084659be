//! The integration tests of harn-check, one module a file. They are one program: each further one would be linked anew.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

mod any_types;
mod corpus;
mod examples;
mod invariants;
mod mutations;
mod option_dicts;
mod preflight;
mod program;
mod properties;
mod rules;
mod strangers;
mod templates;
mod wrong_calls;
