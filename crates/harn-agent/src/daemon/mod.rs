//! Loops that wait: what they wait for, and what they leave on disk. No I/O.
//!
//! A daemon goes `active → idle → active`. The loop itself is [`crate::AgentLoop`], which asks for [`crate::Step::Rest`] where
//! another loop would end; [`Queue`] holds the events of a daemon that has a handle.
//!
//! An event is delivered to one turn that was completed, whatever happens in between: the snapshot that a turn ends with
//! names the event (`last_event_seq`), and is written in one step. The queue is written before a trigger is acknowledged, and
//! after a crash it forgets exactly what the snapshot has.

mod config;
pub mod history;
mod queue;
mod snapshot;

pub use config::DaemonConfig;
pub(crate) use config::IDLE_WAITS_MS;
pub use queue::{Delivery, Queue};
pub use snapshot::check_snapshot;
