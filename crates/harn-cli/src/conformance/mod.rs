//! The conformance suite: programs with recorded output or error, all run in one process by a few threads.

pub(crate) mod captured;
pub(crate) mod case;
pub(crate) mod expect;
pub(crate) mod filter;
pub(crate) mod junit;
pub(crate) mod printed;
pub(crate) mod run;
mod watched;
