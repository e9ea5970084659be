//! The integration tests of harn-template, one module a file. They are one program: each further one would be linked anew.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

mod assets;
mod docs;
mod errors;
mod files;
mod hostile;
mod records;
mod rendering;
