//! What every store must do, and what the one in a file must survive.

mod conformance;
mod crash;
mod faults;
mod growth;
mod processes;
mod support;
