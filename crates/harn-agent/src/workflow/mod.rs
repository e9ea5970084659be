//! Workflows: graphs of steps, as plain data, and how they run.
//!
//! Nothing here does anything to the world. `graph` reads a graph, `validate` says whether it fits together, `edit` changes it.
//! `run` is the state machine of a run: it says what is to be done and takes what came of it (`work`: what a model is
//! asked, `outcome`: what came of a node, `routes`: where things are in a graph, `options`: those of a run, `world`: what it needs of its surroundings). `record` is what is written down (`packed`: in files), `observe` what can be
//! seen in it, `fixture` whether it came out as it should.

pub mod edit;
pub mod fixture;
pub mod graph;
pub mod observe;
pub mod options;
pub mod outcome;
mod packed;
mod record;
mod routes;
pub mod run;
#[cfg(test)]
mod tests;
pub mod validate;
pub mod work;
pub mod world;

pub use edit::Moment;
pub use graph::{Edge, Graph, Node};
pub use options::{LIMIT_KEYS, MODEL_KEYS, RunOptions};
pub use outcome::Report;
pub use packed::{pack, unpack};
pub use record::{Mark, apply};
pub use run::{Answer, Execution, Step};
pub use validate::{Validation, validate};
pub use work::{Command, Work, of_single_stage};
pub use world::World;
