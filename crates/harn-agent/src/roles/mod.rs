//! What the role runtime decides, without I/O: which tools each agent has and who must be asked, the states of plans,
//! approvals and references, what scripts of tests mean, and which events may follow each other.
//!
//! The specs themselves are in [`crate::harness`]. Read [`assembly`] first: it puts a spec and what the host brings
//! together. Whoever drives this gives the time, the ids and the stores.

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
