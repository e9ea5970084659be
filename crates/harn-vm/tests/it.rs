//! The integration tests of harn-vm, one module per file. They form one test binary, because each additional one
//! would be linked separately.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cycles;
mod embedding;
mod machine;
mod native;
mod observe;
mod soundness;
