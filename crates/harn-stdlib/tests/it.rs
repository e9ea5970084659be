//! The integration tests of harn-stdlib, one module per file. They are one executable, because each further one would
//! have to be linked.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

mod conformance;
mod examples;
mod hostile_paths;
mod odd_arguments;
mod supervisors;
mod tables;
mod transport;
