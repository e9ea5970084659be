//! Workflows: graphs of steps, as plain data, and their execution.
//!
//! Nothing here has side effects. `graph` reads a graph, `validate` checks its consistency, `edit` changes it. `run` is
//! the state machine of a run: it requests work and handles the results (`work`: the request to a model, `outcome`: the
//! outcome of a node, `routes`: an index of the graph, `options`: the options of a run, `world`: its environment).
//! `record` is the record of a run (`packed`: its form in files), `observe` derives observability data from it, and
//! `fixture` checks its results.

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
