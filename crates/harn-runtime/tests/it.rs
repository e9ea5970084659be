//! The integration tests of harn-runtime, one module per file. They are one program, because each further one would be
//! linked separately.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

mod bulk_work;
mod ceilings;
mod daemon_growth;
mod effects;
mod embedding;
mod escapes;
mod examples;
mod examples_of_builtins;
mod features;
mod gates;
mod guide;
mod handoffs;
mod host;
mod loop_bills;
mod options;
mod private_loops;
mod prompts;
mod roles;
mod roles_properties;
mod waiting;
mod wire;
