//! What every store must do, and what the one in a file must survive.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod conformance;
mod crash;
mod damage;
mod faults;
mod growth;
#[cfg(feature = "postgres")]
mod postgres;
mod processes;
mod queues;
mod runs;
#[cfg(feature = "postgres")]
mod server;
mod support;
