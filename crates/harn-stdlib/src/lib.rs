//! The general builtins of Harn, and the methods of its value types.
//!
//! Every entry is defined with the `builtins!` macro next to its documentation, an example that the tests run, its
//! types and its effect; the checker, `harn explain` and the reference use the same tables. Each topic has one file:
//! `builtins/<topic>.rs` contains functions, `methods/<type>.rs` methods.
//!
//! The crate does not know model calls, agents, templates and tasks; their builtins are in other crates. Read `args.rs`
//! first: it defines the argument types of the tables.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod args;
mod bridge;
mod builtins;
mod command_guard;
pub mod event_log;
mod failures;
mod file_lock;
mod format;
mod http;
mod jq;
mod json_search;
mod methods;
mod modules;
mod pieces;
mod places;
mod plain;
mod sequences;
mod sorting;
mod state;
mod streams;
mod supervisor;
mod text;
mod transport;
mod yaml;

pub use bridge::{Answer, HostBridge, attach_host};
pub use builtins::{
    ask_host, ask_terminal, builtins, call_host_tool, constant_time_equal, globals, has_host, has_terminal,
    hmac_sha256, iso_millis, notify_host, notify_host_with, run_folder, state_place, timestamp_now,
    wrong_pattern,
};
pub use command_guard::{CommandGuard, Later, Runner, attach_command_guard};
pub use failures::with_file_facts;
pub use file_lock::wait as wait_for_lock;
pub use http::Doubts;
pub use http::egress::{check_egress, egress_error, egress_rules};
pub use methods::methods;
pub use modules::module;
pub use plain::check_data;
pub use state::task_facts;
pub use supervisor::debug_facts;
pub use yaml::parse as parse_yaml;
