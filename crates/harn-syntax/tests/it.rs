//! The integration tests of harn-syntax, one module a file. They are one program: each further one would be linked anew.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

mod diagnostics;
mod errors;
mod expressions;
mod habits;
mod lexing;
mod properties;
mod recovery;
mod statements;
