//! The conformance suite: programs with recorded output or errors, all run in one process by several threads.

pub(crate) mod captured;
pub(crate) mod case;
pub(crate) mod expect;
pub(crate) mod filter;
pub(crate) mod junit;
pub(crate) mod printed;
pub(crate) mod run;
mod watched;
