//! Eval packs: cases that hold runs to fixtures, rubrics, limits and a baseline; and what people have to correct again and again.
//!
//! `pack` reads a manifest, `report` evaluates it, `friction` keeps account of corrections and proposes what an agent
//! should be given from the start. Files are read by whoever calls ([`Reader`]).

pub mod friction;
pub mod pack;
mod report;
#[cfg(test)]
mod tests;

pub use pack::manifest;
pub use report::{Reader, evaluate};
