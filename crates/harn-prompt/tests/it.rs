//! The integration tests of harn-prompt, one module a file. They are one program: each further one would be linked anew.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod allocation;
mod docs;
mod properties;
mod prose_lint;
