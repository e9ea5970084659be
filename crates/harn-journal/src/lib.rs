//! The journal of a run: what came from outside, in which order, and the same run again from it.
//!
//! A [`Journal`] is a system over another one. Everything that a program does outside of itself passes through it, as does
//! everything that the runtime does for the program: model calls, agent loops, sub-agents and builtins that are yet
//! to be written need nothing of their own. Each answer becomes an [`Entry`]. Where there is an entry already, it is the
//! answer, and nothing happens outside. So a program that reads its journal from the beginning comes to where it was, and
//! goes on live behind the last entry.
//!
//! That takes a program that does the same when it is answered the same. Three things see to that: tasks take turns in an order
//! that nothing outside decides, completions are handed over one at a time at places that the journal keeps
//! ([`harn_system::Outside`]), and clocks stand still between two entries.
//!
//! | File | What it holds |
//! | --- | --- |
//! | `entry` | what a journal consists of, and its form in a store |
//! | `setup` | what a journal begins with, and why it ends a run |
//! | `journal` | what follows and records: the next entry, what is kept, the end |
//! | `clock` | the clocks of a run |
//! | `output` | output that is held |
//! | `printing` | what is printed, and when it leaves |
//! | `layer` | the system that a program sees: what is answered at once |
//! | `op` | operations that take time, and who is told |
//! | `outside` | what takes time: waits, requests, processes, and who gets what when |
//! | `people` | requests to people, and their answers |
//! | `doubt` | effects of which nobody knows whether they happened, and decisions about them |
//! | `body` | bodies of replies, piece by piece |
//! | `socket` | WebSockets, frame by frame |
//! | `chance` | random numbers, made of one draw |
//! | `draw` | where a run draws its seed |
//! | `retry` | where a failed run is tried again |
//! | `keeper` | where entries go: a store, memory, nowhere |
//! | `wire` | answers as bytes |
//! | `secrets` | keys, which never enter a journal |

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![doc = ""]
#![doc = include_str!("../README.md")]

mod body;
mod chance;
mod clock;
mod doubt;
mod draw;
mod entry;
mod journal;
mod keeper;
mod layer;
mod op;
mod output;
mod outside;
mod people;
mod printing;
mod retry;
mod secrets;
mod setup;
mod socket;
mod wire;

pub use entry::{Entry, FORMAT, Place, What};
pub use harn_store::wait;
pub use journal::Journal;
pub use keeper::{
    Answers, Count, Keeper, Kept, LEASE_MS, MemoryKeeper, Nowhere, StoreKeeper, Trouble, owner, take_lease,
};
pub use op::{Drain, Drainer, Pending};
pub use retry::{last_effect, retry_from};
pub use setup::{Difference, InDoubtPolicy, LONG, Reins, Setup, Stop};
