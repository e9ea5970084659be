//! The integration tests of harn-syntax, one module per file. They form one binary, because each additional one
//! must be linked separately.

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
