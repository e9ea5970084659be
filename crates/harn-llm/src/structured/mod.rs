//! Structured output: schemas on the wire, extraction of JSON, validation, and correction rounds.

pub mod extract;
pub mod judge;
mod partial;
pub(crate) mod provider_schema;
mod repair;
pub mod rounds;
pub mod schema;

pub use extract::Extracted;
pub use judge::{Candidate, Judgement, NUDGE_ASSET};
pub use partial::PartialAnswer;
pub(crate) use repair::{replace_lone_surrogates, without_lone_surrogates};
pub use rounds::{Rounds, Verdict};
