//! The integration tests of harn-stdlib, one module a file. They are one program: each further one would be linked anew.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

mod conformance;
mod examples;
mod hostile_paths;
mod odd_arguments;
mod supervisors;
mod tables;
mod transport;
