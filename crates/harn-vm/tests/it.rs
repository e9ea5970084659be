//! The integration tests of harn-vm, one module a file. They are one program: each further one would be linked anew.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cycles;
mod embedding;
mod machine;
mod native;
mod observe;
mod soundness;
