//! Structured output: schemas on the wire, JSON out of prose, validation, and rounds of correction.

pub mod extract;
pub mod rounds;
pub mod schema;

pub use extract::{Extracted, extract};
pub use rounds::{Rounds, Verdict};
