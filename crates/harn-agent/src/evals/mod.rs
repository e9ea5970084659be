//! Eval packs: cases that compare runs with fixtures, rubrics, limits and a baseline; and records of repeated user
//! corrections.
//!
//! `pack` reads a manifest, `report` evaluates it, `friction` records corrections and suggests context for an agent.
//! The caller reads the files ([`Reader`]).

pub mod friction;
pub mod pack;
mod report;
#[cfg(test)]
mod tests;

pub use pack::manifest;
pub use report::{Reader, evaluate};
