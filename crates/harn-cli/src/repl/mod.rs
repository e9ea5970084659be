//! The parts of `harn repl`: `input` decides when an input is complete, `words` completes and colours, `editor` reads
//! lines from a terminal, `session` evaluates.

pub(crate) mod editor;
pub(crate) mod input;
pub(crate) mod session;
pub(crate) mod words;
