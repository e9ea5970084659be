//! The decisions of the role runtime, without I/O: the tools of each agent and their approval rules, the states of
//! plans, approvals and references, scripted prompts of tests, and the order of events.
//!
//! The specs themselves are in [`crate::harness`]. Read [`assembly`] first: it combines a spec with the host's
//! bindings. The driver supplies the time, the ids and the stores.

pub mod approvals;
pub mod assembly;
pub mod catalog;
pub mod event;
pub mod order;
pub mod plan;
pub mod reference;
pub mod script;

pub use approvals::{Approvals, Decision, Outcome};
pub use assembly::{Backing, BoundAgent, BoundTool, CreateError, Facts, assemble};
pub use plan::{Plan, PlanError, Status};
pub use reference::{Stored, content_id};
