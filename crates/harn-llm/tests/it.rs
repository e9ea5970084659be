//! The integration tests of harn-llm, one module per file. They are one binary, because each additional binary would
//! have to be linked separately.

#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "tests")]

mod support;

mod adjusted;
mod bills;
mod budgets;
mod calls;
mod connections;
mod determinism;
mod faults;
mod formats;
mod hostile;
mod http;
mod names;
mod real_server;
mod replies;
mod secrets;
mod servers;
mod streams;
