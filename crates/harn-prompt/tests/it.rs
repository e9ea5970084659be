//! The integration tests of harn-prompt, one module per file. They are one binary, because each additional binary would
//! have to be linked separately.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod allocation;
mod docs;
mod properties;
mod prose_lint;
