//! Records the answers and completions that a run receives from outside, and replays the run from them.
//!
//! A [`Journal`] is a layer over another system. All effects of a program pass through it, also those that the
//! runtime causes for the program: model calls, agent loops, sub-agents and future builtins need no further code.
//! Each answer becomes an [`Entry`]. Where an entry exists, it is the answer, and no effect happens. So a program
//! that follows its journal from the beginning reaches its last state, and then runs live.
//!
//! This requires a program that makes equal steps for equal answers. Three properties ensure that: tasks run in an
//! order that nothing outside decides, completions are delivered one at a time at recorded places
//! ([`harn_system::Outside`]), and clocks stop between two entries.
//!
//! | File | Content |
//! | --- | --- |
//! | `entry` | entries, and their form in a store |
//! | `setup` | settings of a journal, and reasons to stop a run |
//! | `journal` | following and recording: the next entry, persistence, the end |
//! | `clock` | the clocks of a run |
//! | `output` | output that waits for entries |
//! | `printing` | what a program prints, and when it is written |
//! | `layer` | the system that a program sees: effects with an immediate answer |
//! | `op` | operations that take time, and their wakers |
//! | `outside` | waits, requests and processes, and the delivery of their results |
//! | `people` | requests to humans, and their answers |
//! | `doubt` | effects with an unknown outcome, and decisions about them |
//! | `body` | bodies of replies, in pieces |
//! | `socket` | WebSockets, frame by frame |
//! | `chance` | random numbers, generated from a seed |
//! | `draw` | drawing the seed |
//! | `retry` | the entry from which a failed run is retried |
//! | `keeper` | destinations of entries: a store, memory, none |
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
pub use retry::{last_effect, retry};
pub use setup::{Difference, InDoubtPolicy, LONG, Reins, Setup, Stop};
