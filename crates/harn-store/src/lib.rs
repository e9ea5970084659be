//! Persists data beyond the end of a process: leases, key-value pairs, an event log, durable queues, sessions, run
//! journals and blobs.
//!
//! There is one trait, [`Store`], asynchronous and fenced: a writer has a lease, every write carries its epoch, and a
//! process whose lease was taken over cannot overwrite its successor. This crate does not know the language, and has
//! no clock and no randomness: times and ids are arguments.
//!
//! Read `write.rs` first: it lists all possible changes.
//!
//! | File | Content |
//! | --- | --- |
//! | `store` | the trait, short forms of single writes, and waiting on a thread |
//! | `write` | the list of writes, their limits and results |
//! | `model` | leases, entries, events, messages, sessions, digests |
//! | `run` | runs, their journals, sources and waitpoints |
//! | `scheduling` | queues of runs, priorities, keys and limits |
//! | `queue` | submitting runs, and how workers take runs |
//! | `queue_sql` | the SQL by which the databases choose the next run of a queue |
//! | `error` | errors, with hints |
//! | `place` | the location of a store, as a user names it |
//! | `shown` | addresses in messages, without their passwords |
//! | `thread` | the thread of a store, and group commit |
//! | `sqlite` | a file in the state directory of the project |
//! | `postgres` | a database that several machines share |
//! | `memory` | a store without a file, for tests |
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![doc = ""]
#![doc = include_str!("../README.md")]

mod error;
mod memory;
mod model;
mod place;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
mod queue_sql;
mod run;
mod scheduling;
mod shown;
mod sqlite;
mod store;
mod thread;
mod write;

pub use error::{Error, Result};
pub use memory::MemoryStore;
pub use model::{
    Claimed, Dead, Digest, Entry, Event, Expect, Fence, Lease, NewEvent, NewMessage, QueueStats, Session,
    Topic,
};
pub use place::Place;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresOptions, PostgresStore};
pub use queue::{ClaimRuns, Claims, Submission, Submitted};
pub use run::{
    Answer, EntryKind, JournalEntry, NewRun, NewStatus, NewWaitpoint, Parent, Prune, Run, RunFilter,
    RunStatus, Source, StoreStats, Waitpoint, Wish,
};
pub use scheduling::{DEFAULT_QUEUE, QueueLimits, QueueState, Rate, RunQueue, Scheduling};
pub use sqlite::{Durability, SqliteOptions, SqliteStore};
pub use store::{Reply, Store, StoreExt, wait};
pub use write::{MAX_NAME, Write, Written};
