//! Daemons: what they wait for, and what they store on disk. No I/O.
//!
//! A daemon alternates `active → idle → active`. The loop itself is [`crate::AgentLoop`], which requests
//! [`crate::Step::Rest`] where another loop would end; [`Queue`] holds the events of a daemon that has a handle.
//!
//! An event is delivered to exactly one completed turn, regardless of crashes: the snapshot at the end of a turn
//! contains the event's number (`last_event_seq`) and is written atomically. The queue is written before a trigger is
//! acknowledged; after a crash it drops exactly the events that the snapshot contains.

mod config;
pub mod history;
mod queue;
mod snapshot;

pub(crate) use config::IDLE_WAITS_MS;
pub use config::{DaemonConfig, DaemonOptions};
pub use queue::{Delivery, Queue};
pub use snapshot::check_snapshot;
