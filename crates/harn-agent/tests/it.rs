//! The integration tests of harn-agent, one module per file: prompts, profiles and the specs of role agents together.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod approvals;
mod assets;
mod no_panic;
mod seed;
