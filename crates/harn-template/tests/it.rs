//! The integration tests of harn-template, one module per file. They form one binary, because each additional one
//! must be linked separately.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

mod assets;
mod docs;
mod errors;
mod files;
mod hostile;
mod records;
mod rendering;
